// The request: JSON in, Config or problems out, and back. After a parse without problems nothing can fail but running out of
// memory, which is a result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "whatfits/config.h"

namespace whatfits {

/// Something wrong with a request.
struct Problem {
  enum class Kind : std::uint8_t {
    not_allowed,  ///< the value is not one of the request's language
    unsupported,  ///< the request's language has the value, this version does not replay it yet
    statement,    ///< about the key or the whole text; there is no value to show
  };
  std::string key;      ///< dotted path, "device.total_mib"; "request" for the whole text
  std::string value;    ///< what was given, as text, cut to a line and always valid UTF-8; empty for a statement
  std::string message;  ///< what is allowed: "must be a whole number from 1 to 1048576"
  Kind kind = Kind::not_allowed;

  friend bool operator==(const Problem&, const Problem&) = default;
};

/// One line for a person: `batch: "-3" is not allowed: must be a whole number from 1 to 1048576`.
std::string to_line(const Problem& problem);

/// `config` holds only if `problems` is empty.
struct ParsedRequest {
  Config config;
  std::vector<Problem> problems;

  friend bool operator==(const ParsedRequest&, const ParsedRequest&) = default;
};

/// Limits of a request. What is beyond them is a slip of the pen, or would take a replay out of its 64-bit arithmetic, out of
/// memory or past an hour. The last two bound products, the others one value each. Who changes a Config afterwards (a search for
/// the largest batch) keeps to them: `bytes_bound(config) < limits::step_bytes`.
namespace limits {
inline constexpr std::size_t text_bytes = std::size_t{1} << 20;
inline constexpr int nesting = 32;
inline constexpr std::int64_t batch = 1 << 20;
inline constexpr std::int64_t positions = 1 << 24;  ///< n_positions, seq_len
inline constexpr std::int64_t vocab_size = 1 << 24;
inline constexpr std::int64_t n_embd = 1 << 20;
inline constexpr std::int64_t n_layer = 10000;
inline constexpr std::int64_t grad_accumulation = 1024;
inline constexpr std::int64_t steps = 64;
inline constexpr std::int64_t loss_chunks = 128;
inline constexpr std::int64_t warmup_matmul = 1 << 16;
inline constexpr std::int64_t memory_mib = 1 << 30;  ///< 1 PiB
inline constexpr std::int64_t sm_count = 1024;
inline constexpr std::int64_t gpus = 1 << 14;
inline constexpr std::size_t name_bytes = 200;
/// n_layer * grad_accumulation: how often a block runs in a step. All of it is recorded, some 30 KiB a run.
inline constexpr std::int64_t recorded_blocks = 1 << 14;
/// bytes_bound(config) must be below this.
inline constexpr std::uint64_t step_bytes = std::uint64_t{1} << 60;
}  // namespace limits

/// More bytes than all tensors of one step can have together, each counted as if none ever died: parameters, gradients,
/// optimizer state and their temporaries; in each block hidden states (B*T*C), the wider MLP (B*T*4C) and scores (B*NH*T*T),
/// forward and backward, in fp32 with casts; logits (B*T*V) and ids. Saturates at UINT64_MAX instead of wrapping; a negative
/// dimension counts as 0.
std::uint64_t bytes_bound(const Config& config);

/// Reads a request. Finds every problem, not only the first; never throws on any text, and does not recurse deeper than
/// `limits::nesting`. Numbers may be written 8 or 8.0. A key given twice is a problem.
ParsedRequest parse_request(std::string_view json_text);
inline ParsedRequest parse_request(const char* json_text) { return parse_request(std::string_view(json_text)); }
inline ParsedRequest parse_request(const std::string& json_text) { return parse_request(std::string_view(json_text)); }

/// The same for a value that is parsed already (or was put together from flags). Untrusted text goes through the text form:
/// copying and destroying a deep value costs call stack before this sees it.
ParsedRequest parse_request(const nlohmann::ordered_json& request);
ParsedRequest parse_request(const nlohmann::json& request);

/// Every key written out, in the contract's order; parse_request gives the same Config again. A model or device that is exactly
/// its preset is written as the id, any other as an object. A device object says `total_assumed` or `free_assumed` where true.
/// `config` must hold (come from a parse without problems, or obey the same limits).
nlohmann::ordered_json request_json(const Config& config);

/// One key of a request.
struct Setting {
  std::string key;    ///< dotted where a section has it: "allocator.expandable_segments"
  std::string value;  ///< as JSON
};
/// What `after` says and `before` does not, in the request's order.
std::vector<Setting> differences(const Config& before, const Config& after);

/// The request's `model` as an object, whether it is a preset or not.
nlohmann::ordered_json model_json(const ModelConfig& model);

/// The request's word for a value.
std::string_view to_string(Precision value);
std::string_view to_string(Attention value);
std::string_view to_string(Optimizer value);
std::string_view to_string(Checkpointing value);
std::string_view to_string(Loss value);
std::string_view to_string(ZeroGrad value);
std::string_view to_string(Engine value);
std::string_view to_string(Parallel::Strategy value);

}  // namespace whatfits
