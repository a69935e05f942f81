#include "measure/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace whatfits::native {

namespace {

constexpr Bytes kChunk = 16 * MiB;
constexpr Bytes kMaxHeader = 100 * MiB;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw std::runtime_error("checkpoint \"" + path + "\": " + what);
}

const char* dtype_name(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "F32";
    case DType::float64:
      return "F64";
    case DType::bfloat16:
      return "BF16";
    case DType::float16:
      return "F16";
    case DType::int64:
      return "I64";
    case DType::uint8:
      return "U8";
    case DType::boolean:
      return "BOOL";
  }
  return "";
}

Bytes bytes_of(const View& view) { return static_cast<Bytes>(view.elements()) * size_of(view.dtype); }

std::vector<std::int64_t> shape_of(const View& view) { return {view.sizes.begin(), view.sizes.begin() + view.rank}; }

}  // namespace

std::string checkpoint_name(const NamedTensor& tensor) {
  return tensor.category == Category::parameters ? tensor.name : "optimizer." + tensor.name;
}

void write_checkpoint(const std::string& path, const Executor& executor, KernelSet& kernels) {
  const std::vector<NamedTensor> tensors = executor.persistent();
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "whatfits"},
                            {"optimizer_steps", std::to_string(executor.optimizer_steps())},
                            {"micro_batches", std::to_string(executor.micro_batches())}};
  Bytes at = 0;
  for (const NamedTensor& t : tensors) {
    const Bytes bytes = bytes_of(t.view);
    header[checkpoint_name(t)] = {{"dtype", dtype_name(t.view.dtype)}, {"shape", shape_of(t.view)}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');

  const std::string temporary = path + "." + std::to_string(getpid()) + ".tmp";
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) fail(path, std::strerror(errno));
  int error = 0;
  const auto put = [&](const char* data, Bytes n) {
    while (n > 0 && error == 0) {
      const ssize_t written = write(fd, data, n);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        error = written == 0 ? ENOSPC : errno;
        return;
      }
      data += written;
      n -= static_cast<Bytes>(written);
    }
  };
  const std::uint64_t length = text.size();
  put(reinterpret_cast<const char*>(&length), sizeof length);
  put(text.data(), text.size());
  std::vector<char> chunk(kChunk);
  for (const NamedTensor& t : tensors) {
    const Bytes bytes = bytes_of(t.view);
    for (Bytes begin = 0; begin < bytes && error == 0; begin += kChunk) {
      const Bytes n = std::min(kChunk, bytes - begin);
      kernels.read(chunk.data(), static_cast<const char*>(t.view.data) + begin, n);
      put(chunk.data(), n);
    }
  }
  if (error == 0 && fsync(fd) != 0) error = errno;
  close(fd);
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(temporary.c_str());
  fail(path, std::strerror(error));
}

Checkpoint::Checkpoint(const std::string& path) : path_(path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path, "cannot be opened");
  file.seekg(0, std::ios::end);
  const auto size = static_cast<Bytes>(file.tellg());
  file.seekg(0);
  std::uint64_t length = 0;
  if (size < sizeof length || !file.read(reinterpret_cast<char*>(&length), sizeof length))
    fail(path, "is too short for a safetensors file");
  if (length > kMaxHeader || length > size - sizeof length) fail(path, "is no safetensors file: its header would be longer than it");
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  data_at_ = sizeof length + length;
  const nlohmann::json header = nlohmann::json::parse(text, nullptr, false);
  if (!header.is_object()) fail(path, "is no safetensors file: its header is not JSON");
  try {
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        optimizer_steps_ = std::stoll(entry.at("optimizer_steps").get<std::string>());
        micro_batches_ = std::stoull(entry.at("micro_batches").get<std::string>());
        continue;
      }
      Entry e{entry.at("dtype").get<std::string>(), entry.at("shape").get<std::vector<std::int64_t>>(),
              entry.at("data_offsets").at(0).get<Bytes>(), entry.at("data_offsets").at(1).get<Bytes>()};
      if (e.begin > e.end || e.end > size - data_at_) fail(path, "is cut off: \"" + name + "\" ends behind its end");
      entries_.emplace(name, std::move(e));
    }
  } catch (const nlohmann::json::exception&) {
    fail(path, "has a header without the fields of a checkpoint");
  } catch (const std::logic_error&) {
    fail(path, "has metadata that is no number");
  }
  if (optimizer_steps_ < 1) fail(path, "is not a checkpoint of a training run: its metadata has no optimizer_steps");
}

bool Checkpoint::restore(const std::string& name, const View& view, KernelSet& kernels) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return false;
  const Entry& e = found->second;
  if (e.dtype != dtype_name(view.dtype) || e.shape != shape_of(view) || e.end - e.begin != bytes_of(view))
    fail(path_, "\"" + name + "\" has another shape or type than this model's");
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(data_at_ + e.begin));
  std::vector<char> chunk(std::min(kChunk, e.end - e.begin));
  for (Bytes at = 0; at < e.end - e.begin; at += kChunk) {
    const Bytes n = std::min(kChunk, e.end - e.begin - at);
    if (!file.read(chunk.data(), static_cast<std::streamsize>(n))) fail(path_, "cannot be read");
    kernels.write(static_cast<char*>(view.data) + at, chunk.data(), n);
  }
  return true;
}

void Checkpoint::restore_parameters(const Executor& executor, KernelSet& kernels) const {
  std::size_t restored = 0;
  for (const NamedTensor& p : executor.named(Category::parameters)) {
    if (!restore(p.name, p.view, kernels)) fail(path_, "lacks \"" + p.name + "\"");
    ++restored;
  }
  const auto is_parameter = [](const auto& entry) { return entry.first.rfind("optimizer.", 0) != 0; };
  const auto saved = static_cast<std::size_t>(std::count_if(entries_.begin(), entries_.end(), is_parameter));
  if (saved != restored) fail(path_, "has " + std::to_string(saved) + " parameters, this model " + std::to_string(restored));
}

}  // namespace whatfits::native
