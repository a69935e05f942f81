#include "align.h"

#include <algorithm>
#include <cstdint>

namespace whatfits::snapshot {

std::optional<Alignment> align(const std::vector<Bytes>& a, const std::vector<Bytes>& b, std::size_t most) {
  const auto n = static_cast<std::ptrdiff_t>(a.size());
  const auto m = static_cast<std::ptrdiff_t>(b.size());
  const auto limit = static_cast<std::ptrdiff_t>(std::min(most, a.size() + b.size()));
  const auto same = [&](std::ptrdiff_t x, std::ptrdiff_t y) { return a[static_cast<std::size_t>(x)] == b[static_cast<std::size_t>(y)]; };
  // furthest[d][k + d]: how far into `a` a path with d lone elements gets on diagonal k = x - y.
  std::vector<std::vector<std::ptrdiff_t>> furthest;
  const auto reach = [&](std::ptrdiff_t d, std::ptrdiff_t k) {
    return k < -d || k > d ? std::ptrdiff_t{-1} : furthest[static_cast<std::size_t>(d)][static_cast<std::size_t>(k + d)];
  };
  const auto goes_down = [&](std::ptrdiff_t d, std::ptrdiff_t k) {
    return k == -d || (k != d && reach(d - 1, k - 1) < reach(d - 1, k + 1));
  };
  for (std::ptrdiff_t d = 0; d <= limit; ++d) {
    furthest.emplace_back(static_cast<std::size_t>(2 * d + 1), -1);
    for (std::ptrdiff_t k = -d; k <= d; k += 2) {
      std::ptrdiff_t x = 0;
      if (d > 0) x = goes_down(d, k) ? reach(d - 1, k + 1) : reach(d - 1, k - 1) + 1;
      while (x < n && x - k < m && same(x, x - k)) ++x;
      furthest[static_cast<std::size_t>(d)][static_cast<std::size_t>(k + d)] = x;
      if (x < n || x - k < m) continue;
      Alignment result;
      result.distance = static_cast<std::size_t>(d);
      std::ptrdiff_t y = x - k;
      for (std::ptrdiff_t back = d, diagonal = k; back >= 0; --back) {
        std::ptrdiff_t from_x = 0;
        std::ptrdiff_t next = diagonal;
        if (back > 0) {
          const bool down = goes_down(back, diagonal);
          next = down ? diagonal + 1 : diagonal - 1;
          from_x = down ? reach(back - 1, next) : reach(back - 1, next) + 1;
        }
        for (; x > from_x; --x, --y) result.pairs.emplace_back(x - 1, y - 1);
        if (back > 0) {
          x = reach(back - 1, next);
          y = x - next;
        }
        diagonal = next;
      }
      std::reverse(result.pairs.begin(), result.pairs.end());
      return result;
    }
  }
  return std::nullopt;
}

}  // namespace whatfits::snapshot
