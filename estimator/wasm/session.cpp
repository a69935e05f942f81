#include "session.h"

#include <algorithm>
#include <utility>

#include "analysis/put.h"
#include "whatfits/request.h"

namespace whatfits::wasm {

namespace {

Json category_names() {
  Json names = Json::array();
  for (int i = 0; i < kCategories; ++i) names.push_back(name_of(static_cast<Category>(i)));
  return names;
}

}  // namespace

std::string Session::request() const { return request_text(config_); }

std::string Session::report() const { return write(to_json(replayed() ? estimate(program_, config_) : estimate(config_))); }

std::string Session::summary() const {
  Json out = to_json(replayed() ? whatfits::summary(program_, config_) : estimate(config_));
  for (const char* key : {"program_hash", "trace_hash", "ledger"}) out.erase(key);
  return write(out);
}

std::string Session::ledger(std::uint64_t event) {
  if (event == kAtPeak || !replayed()) return write(to_json((replayed() ? estimate(program_, config_) : estimate(config_)).ledger));
  return write(to_json(ledger_at(program_, config_, event)));
}

std::string Session::pool(std::uint64_t event) const { return write(to_json(pool_at(program_, config_, event))); }

std::string Session::timeline(int step) {
  timeline_ = whatfits::timeline(program_, config_, step);
  Json phases = Json::array();
  for (int i = 0; i <= static_cast<int>(Phase::zero_grad); ++i) phases.push_back(name_of(static_cast<Phase>(i)));
  int last_op = 0;
  for (const TimelineRow& row : timeline_->rows) last_op = std::max(last_op, static_cast<int>(row.op));
  Json ops = Json::array();
  for (int i = 0; i <= last_op; ++i) ops.push_back(name_of(static_cast<OpKind>(i)));
  Json out;
  put(out, "step", timeline_->step);
  put(out, "labels", timeline_->labels);
  put(out, "categories", category_names());
  put(out, "phases", std::move(phases));
  put(out, "ops", std::move(ops));
  put(out, "oom", timeline_->oom ? to_json(*timeline_->oom) : Json(nullptr));
  return write(out);
}

const Arrays& Session::timeline_arrays() {
  if (!timeline_) timeline_ = whatfits::timeline(program_, config_);
  const std::vector<TimelineRow>& rows = timeline_->rows;
  timeline_arrays_.count = rows.size();
  ArrayWriter out(timeline_arrays_, rows.size() * (8 * (4 + std::size_t{kCategories}) + 4 + 2 + 3));
  for (const TimelineRow& row : rows) out.number(row.event);
  for (const TimelineRow& row : rows) out.number(row.bytes);
  for (const TimelineRow& row : rows) out.number(row.counters.allocated);
  for (const TimelineRow& row : rows) out.number(row.counters.reserved);
  for (std::size_t c = 0; c < kCategories; ++c) {
    for (const TimelineRow& row : rows) out.number(row.categories[c]);
  }
  for (const TimelineRow& row : rows) out.add(row.label);
  for (const TimelineRow& row : rows) out.add(row.layer);
  for (const TimelineRow& row : rows) out.add(static_cast<std::uint8_t>(row.phase));
  for (const TimelineRow& row : rows) out.add(static_cast<std::uint8_t>(row.op));
  for (const TimelineRow& row : rows) out.add(static_cast<std::uint8_t>(row.alloc));
  return timeline_arrays_;
}

const Arrays& Session::columns(std::size_t begin, std::size_t end, std::size_t width) {
  if (!timeline_) timeline_ = whatfits::timeline(program_, config_);
  const Columns made = whatfits::columns(*timeline_, begin, end, width);
  columns_.count = made.row.size();
  ArrayWriter out(columns_, made.row.size() * (8 * (2 + std::size_t{kCategories}) + 4));
  for (const Bytes bytes : made.allocated) out.number(bytes);
  for (const Bytes bytes : made.reserved) out.number(bytes);
  for (const auto& category : made.categories) {
    for (const Bytes bytes : category) out.number(bytes);
  }
  for (const std::uint32_t row : made.row) out.add(row);
  return columns_;
}

std::string Session::advise_result() const {
  Json out = to_json(advise_->result());
  put(out, "tried", advise_->done());
  put(out, "of", advise_->total());
  return write(out);
}

std::string Session::sweep_begin(std::vector<std::int64_t> batches, std::vector<std::int64_t> seq_lens) {
  cells_.clear();
  batches_ = std::move(batches);
  seq_lens_ = std::move(seq_lens);
  // The request's own rules hold for every cell if they hold at the corners.
  Config corner = config_;
  if (!batches_.empty() && !seq_lens_.empty()) {
    const auto [least_batch, most_batch] = std::minmax_element(batches_.begin(), batches_.end());
    const auto [least_len, most_len] = std::minmax_element(seq_lens_.begin(), seq_lens_.end());
    for (const auto& [batch, seq_len] : {std::pair(*least_batch, *least_len), std::pair(*most_batch, *most_len)}) {
      corner.batch = batch;
      corner.seq_len = seq_len;
      Answer problems;
      Config ignored;
      if (!read_request(write(request_json(corner)), ignored, problems)) {
        batches_.clear();
        return std::move(problems.text);
      }
    }
  }
  cells_.reserve(batches_.size() * seq_lens_.size());
  return {};
}

bool Session::sweep_step() {
  const std::size_t total = batches_.size() * seq_lens_.size();
  if (cells_.size() >= total) return false;
  cells_.push_back(sweep_cell(config_, batches_[cells_.size() / seq_lens_.size()], seq_lens_[cells_.size() % seq_lens_.size()]));
  return cells_.size() < total;
}

const Arrays& Session::sweep_arrays() {
  sweep_arrays_.count = cells_.size();
  ArrayWriter out(sweep_arrays_, cells_.size() * (8 * 5 + 1));
  for (const SweepCell& cell : cells_) out.add(static_cast<double>(cell.batch));
  for (const SweepCell& cell : cells_) out.add(static_cast<double>(cell.seq_len));
  for (const SweepCell& cell : cells_) out.number(cell.peak.allocated);
  for (const SweepCell& cell : cells_) out.number(cell.peak.reserved);
  for (const SweepCell& cell : cells_) out.add(static_cast<double>(cell.failed_step));
  for (const SweepCell& cell : cells_) out.add(static_cast<std::uint8_t>(cell.fits));
  return sweep_arrays_;
}

}  // namespace whatfits::wasm
