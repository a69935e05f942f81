// Writing objects key by key. Initializer lists read as well but expand to a hundred bytes of code a key, half of what a browser
// would load; these are calls.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "whatfits/json.h"

namespace whatfits {

Json& put_value(Json& object, const char* key, Json value);
void put_text(Json& object, const char* key, std::string_view value);
void put_signed(Json& object, const char* key, std::int64_t value);
void put_unsigned(Json& object, const char* key, std::uint64_t value);

/// object[key] = value, for whatever Json takes. Of an object or array the new place, good until the next put to the same object.
template <class T>
decltype(auto) put(Json& object, const char* key, T&& value) {
  using Value = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<Value, bool>) {
    put_value(object, key, Json(value));
  } else if constexpr (std::is_integral_v<Value> && std::is_signed_v<Value>) {
    put_signed(object, key, value);
  } else if constexpr (std::is_integral_v<Value>) {
    put_unsigned(object, key, value);
  } else if constexpr (std::is_convertible_v<const Value&, std::string_view>) {
    put_text(object, key, value);
  } else {
    return put_value(object, key, Json(std::forward<T>(value)));
  }
}

}  // namespace whatfits
