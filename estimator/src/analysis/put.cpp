#include "analysis/put.h"

namespace whatfits {

[[gnu::noinline]] Json& put_value(Json& object, const char* key, Json value) { return object[key] = std::move(value); }
[[gnu::noinline]] void put_text(Json& object, const char* key, std::string_view value) { put_value(object, key, Json(value)); }
[[gnu::noinline]] void put_signed(Json& object, const char* key, std::int64_t value) { put_value(object, key, Json(value)); }
[[gnu::noinline]] void put_unsigned(Json& object, const char* key, std::uint64_t value) { put_value(object, key, Json(value)); }

}  // namespace whatfits
