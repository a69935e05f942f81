#include "whatfits/program.h"

namespace whatfits {

Shape::Shape(std::initializer_list<Dim> list) {
  for (const Dim d : list) dims[static_cast<std::size_t>(rank++)] = d;
}

std::int64_t Shape::elements() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank; ++i) n *= (*this)[i].size;
  return n;
}

bool operator==(const Shape& a, const Shape& b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a[i].size != b[i].size) return false;
  }
  return true;
}

}  // namespace whatfits
