#include "answers.h"

#include <cstdlib>
#include <utility>

#include "questions.h"

namespace whatfits::wasm {

namespace {
std::string last_text;
const Arrays* last_arrays = nullptr;
}  // namespace

std::uint32_t say(bool ok, std::string text) {
  last_text = std::move(text);
  return ok ? 1 : 0;
}

std::uint32_t show(const Arrays& arrays) {
  last_arrays = &arrays;
  return 1;
}

void show_none() { last_arrays = nullptr; }

std::uint64_t event_of(double event) { return event >= 0 && event < 9e15 ? static_cast<std::uint64_t>(event) : kAtPeak; }

std::size_t index_of(double value) { return value >= 0 && value < 4e9 ? static_cast<std::size_t>(value) : 0; }

}  // namespace whatfits::wasm

using namespace whatfits::wasm;  // NOLINT(google-build-using-namespace): what follows is this namespace's border

WF_EXPORT(wf_abi) std::uint32_t wf_abi() { return 1; }
WF_EXPORT(wf_alloc) void* wf_alloc(std::uint32_t bytes) { return std::malloc(bytes != 0 ? bytes : 1); }
WF_EXPORT(wf_free) void wf_free(void* memory) { std::free(memory); }
WF_EXPORT(wf_text) const char* wf_text() { return last_text.data(); }
WF_EXPORT(wf_text_length) std::uint32_t wf_text_length() { return static_cast<std::uint32_t>(last_text.size()); }
WF_EXPORT(wf_data) const void* wf_data() { return last_arrays != nullptr ? last_arrays->data() : nullptr; }
WF_EXPORT(wf_count) std::uint32_t wf_count() { return last_arrays != nullptr ? static_cast<std::uint32_t>(last_arrays->count) : 0; }
