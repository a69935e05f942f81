// The canonical text of a program: one record after another, numbers in decimal. Equal texts are equal programs.
#include "program/sha256.h"
#include "whatfits/program.h"

namespace whatfits {

std::string program_hash(const Program& program) {
  Sha256 hash;
  hash.add("whatfits program 1\n");
  hash.number(program.setup_end);
  hash.number(program.first_end);
  if (program.repeat_begin != program.first_end) hash.number(program.repeat_begin);
  for (const Event& e : program.events) {
    hash.number(static_cast<std::uint64_t>(e.kind));
    hash.number(e.index);
  }
  for (const Program::Carry& carry : program.carries) {
    hash.number(carry.from);
    hash.number(carry.to);
  }
  for (const StorageInfo& s : program.storages) {
    hash.number(s.bytes);
    if (s.stream != 0) hash.number(s.stream);
  }
  for (const TensorInfo& t : program.tensors) {
    const Layout& layout = program.layouts[t.layout];
    hash.number(t.storage);
    hash.number(static_cast<std::uint64_t>(layout.dtype));
    hash.number(static_cast<std::uint64_t>(layout.offset));
    for (int i = 0; i < layout.shape.rank; ++i) {
      hash.number(static_cast<std::uint64_t>(layout.shape[i].size));
      hash.number(static_cast<std::uint64_t>(layout.strides[static_cast<std::size_t>(i)]));
    }
  }
  for (const OpInfo& op : program.ops) {
    hash.number(static_cast<std::uint64_t>(op.kind));
    hash.number(op.first);
    hash.number(std::uint64_t{op.inputs} << 32 | std::uint64_t{op.outputs} << 16 | op.scratch);
    hash.number(op.flags);
    std::uint64_t bits = 0;
    static_assert(sizeof bits == sizeof op.scalar);
    __builtin_memcpy(&bits, &op.scalar, sizeof bits);
    hash.number(bits);
  }
  for (const TensorId id : program.operands) hash.number(id);
  return hash.hex().substr(0, 16);
}

}  // namespace whatfits
