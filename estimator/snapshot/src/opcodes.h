// Python's pickle opcodes (Lib/pickletools.py documents them): those that make data, and those that are refused.
#pragma once

#include <cstdint>

namespace whatfits::snapshot {

enum class Opcode : std::uint8_t {
  // data
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  binfloat = 'G',
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  none = 'N',
  binunicode = 'X',
  binstring = 'T',
  short_binstring = 'U',
  append = 'a',
  appends = 'e',
  binget = 'h',
  long_binget = 'j',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  setitems = 'u',
  tuple = 't',
  empty_tuple = ')',
  list = 'l',
  empty_list = ']',
  dict = 'd',
  empty_dict = '}',
  binbytes = 'B',
  short_binbytes = 'C',
  proto = 0x80,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  empty_set = 0x8f,
  additems = 0x90,
  frozenset = 0x91,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96,
  // refused: they import, call, or point outside of the file
  persid = 'P',
  binpersid = 'Q',
  reduce = 'R',
  build = 'b',
  global = 'c',
  inst = 'i',
  obj = 'o',
  newobj = 0x81,
  ext1 = 0x82,
  ext2 = 0x83,
  ext4 = 0x84,
  newobj_ex = 0x92,
  stack_global = 0x93,
  next_buffer = 0x97,
  readonly_buffer = 0x98,
};

/// Name of an opcode that is refused, or null.
constexpr const char* refused_name(Opcode opcode) {
  switch (opcode) {
    case Opcode::persid:
      return "PERSID";
    case Opcode::binpersid:
      return "BINPERSID";
    case Opcode::reduce:
      return "REDUCE";
    case Opcode::build:
      return "BUILD";
    case Opcode::global:
      return "GLOBAL";
    case Opcode::inst:
      return "INST";
    case Opcode::obj:
      return "OBJ";
    case Opcode::newobj:
      return "NEWOBJ";
    case Opcode::ext1:
      return "EXT1";
    case Opcode::ext2:
      return "EXT2";
    case Opcode::ext4:
      return "EXT4";
    case Opcode::newobj_ex:
      return "NEWOBJ_EX";
    case Opcode::stack_global:
      return "STACK_GLOBAL";
    case Opcode::next_buffer:
      return "NEXT_BUFFER";
    case Opcode::readonly_buffer:
      return "READONLY_BUFFER";
    default:
      return nullptr;
  }
}

}  // namespace whatfits::snapshot
