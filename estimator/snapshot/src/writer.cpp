#include "whatfits/snapshot_writer.h"

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/replay.h"
#include "opcodes.h"
#include "whatfits/estimate.h"
#include "whatfits/snapshot.h"

namespace whatfits::snapshot {

namespace {

/// Writes values of a pickle one after another. Texts are remembered: the second time they are two to five bytes.
class Pickler {
 public:
  explicit Pickler(const std::function<void(std::string_view)>& write) : write_(write) {
    put(Opcode::proto);
    out_ += '\x02';
  }
  ~Pickler() {
    put(Opcode::stop);
    write_(out_);
  }
  Pickler(const Pickler&) = delete;
  Pickler& operator=(const Pickler&) = delete;

  void begin_dict() { put(Opcode::empty_dict), put(Opcode::mark); }
  void end_dict() { put(Opcode::setitems); }
  void begin_list() { put(Opcode::empty_list), put(Opcode::mark); }
  void end_list() {
    put(Opcode::appends);
    if (out_.size() > 65536) {
      write_(out_);
      out_.clear();
    }
  }
  /// Readers take a list in pieces: no more than one piece is ever in their hands at once.
  void next_piece() {
    end_list();
    put(Opcode::mark);
  }
  void text(std::string_view text) {
    const auto [at, is_new] = memo_.try_emplace(std::string(text), static_cast<std::uint32_t>(memo_.size()));
    if (!is_new) {
      put(Opcode::long_binget);
      little_endian(at->second, 4);
      return;
    }
    put(Opcode::binunicode);
    little_endian(text.size(), 4);
    out_ += text;
    put(Opcode::long_binput);
    little_endian(at->second, 4);
  }
  void number(std::uint64_t n) {
    put(Opcode::long1);
    const int bytes = n >> 56 >= 0x80 ? 9 : 8;
    out_ += static_cast<char>(bytes);
    little_endian(n, 8);
    if (bytes == 9) out_ += '\0';
  }
  void boolean(bool b) { put(b ? Opcode::newtrue : Opcode::newfalse); }
  void pair_of(int a, int b) {
    number(static_cast<std::uint64_t>(a));
    number(static_cast<std::uint64_t>(b));
    put(Opcode::tuple2);
  }
  void entry(std::string_view key, std::uint64_t n) {
    text(key);
    number(n);
  }
  void entry(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }

 private:
  void put(Opcode opcode) { out_ += static_cast<char>(opcode); }
  void little_endian(std::uint64_t n, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(n >> (8 * i) & 0xff);
  }
  const std::function<void(std::string_view)>& write_;
  std::string out_;
  std::unordered_map<std::string, std::uint32_t> memo_;
};

struct Event {
  const char* action = "";
  std::uint64_t address = 0;
  Bytes size = 0;
  StorageId storage = 0;
  int step = 0;
  Phase phase = Phase::warmup;
};

class Writer {
 public:
  Writer(const Config& config, Pickler& out) : config_(config), program_(record(config)), out_(out) {}

  void write() {
    run();
    out_.begin_dict();
    out_.text("segments");
    write_segments();
    out_.text("device_traces");
    out_.begin_list();
    out_.begin_list();
    int in_piece = 0;
    for (const Event& e : events_) {
      event(e);
      if (++in_piece % 1000 == 0) out_.next_piece();
    }
    out_.end_list();
    out_.end_list();
    out_.text("allocator_settings");
    out_.begin_dict();
    out_.text("expandable_segments");
    out_.boolean(config_.allocator.expandable_segments);
    const auto max_split = static_cast<Bytes>(config_.allocator.max_split_size_mib) * MiB;
    if (max_split > 0) out_.entry("max_split_size", max_split);
    out_.text("roundup_power2_divisions");
    out_.begin_dict();
    for (std::size_t at = 0; at < AllocatorSettings{}.divisions.size(); ++at)
      out_.entry(std::to_string(Bytes{1} << at), static_cast<std::uint64_t>(config_.allocator.roundup_power2_divisions));
    out_.end_dict();
    out_.end_dict();
    out_.end_dict();
  }

 private:
  void run() {
    Replay replay(program_, config_.device, config_.allocator);
    std::vector<Address> address(program_.storages.size(), 0);
    std::map<Address, Bytes> segments;
    const Replay::Observer observer = [&](const ReplayEvent& e) {
      const StorageInfo& storage = program_.storages[e.storage];
      const Event base{"", 0, storage.bytes, e.storage, e.step, e.phase};
      if (e.counters.reserved != reserved_ || replay.allocator().retries() != retries_) {
        std::map<Address, Bytes> now;
        for (const auto& segment : replay.allocator().segments()) now[segment.address] = segment.size;
        changes(segments, now, base);
        segments = std::move(now);
        reserved_ = e.counters.reserved;
        retries_ = replay.allocator().retries();
      }
      Event event = base;
      if (e.alloc) {
        address[e.storage] = replay.address(e.storage);
        event.action = "alloc";
        event.address = address[e.storage];
        alive_[event.address] = event;
        events_.push_back(event);
      } else {
        event.address = address[e.storage];
        event.action = "free_requested";
        events_.push_back(event);
        event.action = "free_completed";
        events_.push_back(event);
        alive_.erase(event.address);
      }
      return true;
    };
    bool going = replay.setup(&observer);
    for (int step = 1; step <= config_.steps && going; ++step) {
      going = replay.step(&observer);
      if (program_.repeats(step)) {
        for (const Program::Carry& carry : program_.carries) std::swap(address[carry.from], address[carry.to]);
      }
    }
    if (const auto& oom = replay.trace().oom) {
      // What was cached and whole went back to the device before it was asked for the last time.
      std::map<Address, Bytes> now;
      for (const auto& segment : replay.allocator().segments()) now[segment.address] = segment.size;
      changes(segments, now, events_.back());
      Event event;
      event.action = "oom";
      event.address = oom->free;
      event.size = oom->tensor;
      event.step = oom->at.step;
      event.phase = oom->at.phase;
      event.storage = kNoStorage;
      events_.push_back(event);
    }
    segments_ = replay.allocator().segments();
  }

  /// Segments given back come before those that were made in their place.
  void changes(const std::map<Address, Bytes>& before, const std::map<Address, Bytes>& now, const Event& base) {
    for (const auto& [at, size] : before) {
      const auto still = now.find(at);
      if (still != now.end() && still->second == size) continue;
      if (still == now.end() || still->second < size)
        segment_event(config_.allocator.expandable_segments ? "segment_unmap" : "segment_free",
                      at + (still == now.end() ? 0 : still->second), size - (still == now.end() ? 0 : still->second), base);
    }
    for (const auto& [at, size] : now) {
      const auto was = before.find(at);
      const Bytes had = was == before.end() ? 0 : was->second;
      if (size > had) segment_event(config_.allocator.expandable_segments ? "segment_map" : "segment_alloc", at + had, size - had, base);
    }
  }
  void segment_event(const char* action, Address at, Bytes size, Event event) {
    event.action = action;
    event.address = at;
    event.size = size;
    events_.push_back(event);
  }

  void event(const Event& e) {
    out_.begin_dict();
    out_.entry("action", e.action);
    out_.entry(e.storage == kNoStorage ? "device_free" : "addr", e.address);
    out_.entry("size", e.size);
    out_.entry("stream", std::uint64_t{e.storage == kNoStorage ? std::uint8_t{0} : program_.storages[e.storage].stream});
    out_.entry("time_us", time_++);
    out_.text("frames");
    frames(e);
    out_.end_dict();
  }

  void frames(const Event& e) {
    out_.begin_list();
    if (e.storage != kNoStorage) {
      const StorageInfo& storage = program_.storages[e.storage];
      std::string label = program_.labels[storage.label];
      if (label.empty()) label = "temporary";
      std::string place = std::string(name_of(storage.category));
      if (storage.layer != kNoLayer) place += ", block " + std::to_string(storage.layer);
      frame(name_of(storage.op), label + " (" + place + ")", 0);
    }
    frame(name_of(e.phase), "step", e.step);
    out_.end_list();
  }
  void frame(std::string_view name, std::string_view file, int line) {
    out_.begin_dict();
    out_.entry("name", name);
    out_.entry("filename", file);
    out_.entry("line", static_cast<std::uint64_t>(line));
    out_.end_dict();
  }

  void write_segments() {
    out_.begin_list();
    for (const SegmentView& segment : segments_) {
      Bytes active = 0;
      Bytes requested = 0;
      for (const BlockView& block : segment.blocks) {
        if (!block.allocated) continue;
        active += block.size;
        requested += alive_.at(block.address).size;
      }
      out_.begin_dict();
      out_.entry("device", std::uint64_t{0});
      out_.entry("address", segment.address);
      out_.entry("total_size", segment.size);
      out_.entry("allocated_size", active);
      out_.entry("active_size", active);
      out_.entry("requested_size", requested);
      out_.entry("stream", std::uint64_t{segment.stream});
      out_.entry("segment_type", segment.small ? "small" : "large");
      out_.text("segment_pool_id");
      out_.pair_of(0, 0);
      out_.text("is_expandable");
      out_.boolean(config_.allocator.expandable_segments);
      out_.text("frames");
      out_.begin_list();
      out_.end_list();
      out_.text("blocks");
      out_.begin_list();
      for (const BlockView& b : segment.blocks) block(b.address, b.size, b.allocated ? &alive_.at(b.address) : nullptr);
      out_.end_list();
      out_.end_dict();
    }
    out_.end_list();
  }

  void block(Address address, Bytes size, const Event* owner) {
    out_.begin_dict();
    out_.entry("address", address);
    out_.entry("size", size);
    out_.entry("requested_size", owner != nullptr ? owner->size : 0);
    out_.entry("state", owner != nullptr ? "active_allocated" : "inactive");
    out_.text("frames");
    if (owner != nullptr) {
      frames(*owner);
    } else {
      out_.begin_list();
      out_.end_list();
    }
    out_.end_dict();
  }

  static constexpr StorageId kNoStorage = ~StorageId{0};
  const Config& config_;
  const Program program_;
  Pickler& out_;
  std::vector<Event> events_;
  std::map<Address, Event> alive_;
  std::vector<SegmentView> segments_;  ///< at the end
  Bytes reserved_ = 0;
  std::uint64_t retries_ = 0;
  std::uint64_t time_ = 0;
};

}  // namespace

void write_snapshot(const Config& config, const std::function<void(std::string_view)>& write) {
  Pickler pickler(write);
  Writer(config, pickler).write();
}

}  // namespace whatfits::snapshot
