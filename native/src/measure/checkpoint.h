// Training that goes on: parameters and optimizer state in a safetensors file.
//
// Parameters have the model's names, so other programs can read them; optimizer state is "optimizer." and its name. What is not a
// tensor is in the file's metadata, as text: "optimizer_steps" and "micro_batches".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "measure/executor.h"

namespace whatfits::native {

/// Writes a whole file or none. Throws std::runtime_error with one line for a person.
void write_checkpoint(const std::string& path, const Executor& executor, KernelSet& kernels);

/// A checkpoint, read and checked. Its tensors are read when they are asked for.
class Checkpoint {
 public:
  /// Throws std::runtime_error with one line for a person when the file is not a checkpoint.
  explicit Checkpoint(const std::string& path);

  std::int64_t optimizer_steps() const { return optimizer_steps_; }
  std::uint64_t micro_batches() const { return micro_batches_; }
  /// Writes the tensor of that name to the device; false if there is none. Throws when its shape or type is another.
  bool restore(const std::string& name, const View& view, KernelSet& kernels) const;
  /// Restores every parameter of a run that has been set up. Throws when one is missing or the file has more.
  void restore_parameters(const Executor& executor, KernelSet& kernels) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    Bytes begin = 0, end = 0;
  };
  std::string path_;
  std::map<std::string, Entry> entries_;
  Bytes data_at_ = 0;
  std::int64_t optimizer_steps_ = 0;
  std::uint64_t micro_batches_ = 0;
};

/// The name that a tensor has in the file.
std::string checkpoint_name(const NamedTensor& tensor);

}  // namespace whatfits::native
