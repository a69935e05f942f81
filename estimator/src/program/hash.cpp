// The canonical text of a program: one record after another, numbers in decimal. Equal texts are equal programs.
#include "program/sha256.h"
#include "whatfits/program.h"

namespace whatfits {

std::string program_hash(const Program& program) {
  Sha256 hash;
  hash.add("whatfits program 1\n");
  hash.add(program.setup_end);
  hash.add(program.first_end);
  for (const Event& e : program.events) {
    hash.add(static_cast<std::uint64_t>(e.kind));
    hash.add(e.index);
  }
  for (const Program::Carry& carry : program.carries) {
    hash.add(carry.from);
    hash.add(carry.to);
  }
  for (const StorageInfo& s : program.storages) hash.add(s.bytes);
  for (const TensorInfo& t : program.tensors) {
    hash.add(t.storage);
    hash.add(static_cast<std::uint64_t>(t.dtype));
    hash.add(static_cast<std::uint64_t>(t.offset));
    for (std::size_t i = 0; i < t.rank; ++i) {
      hash.add(static_cast<std::uint64_t>(t.dims[i].size));
      hash.add(static_cast<std::uint64_t>(t.strides[i]));
    }
  }
  for (const OpInfo& op : program.ops) {
    hash.add(static_cast<std::uint64_t>(op.kind));
    hash.add(op.first);
    hash.add(std::uint64_t{op.inputs} << 32 | std::uint64_t{op.outputs} << 16 | op.scratch);
    hash.add(op.flags);
    std::uint64_t bits = 0;
    static_assert(sizeof bits == sizeof op.scalar);
    __builtin_memcpy(&bits, &op.scalar, sizeof bits);
    hash.add(bits);
  }
  for (const TensorId id : program.operands) hash.add(id);
  return hash.hex().substr(0, 16);
}

}  // namespace whatfits
