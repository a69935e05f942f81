// What several commands say the same way.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/session.h"
#include "whatfits/estimate.h"

namespace whatfits::cli {

/// "step 2, backward, layer 3, log_softmax_backward".
std::string place(const Moment& moment);

/// "forward", "optimizer step".
std::string phase_words(Phase phase);

/// "optimizer state".
std::string category_words(Category category);
/// What the category holds, for someone who meets it for the first time.
std::string category_note(Category category);

/// "gpt2-from-scratch", or "gpt2-from-scratch of 4 layers × 256" for a model given as an object.
std::string model_words(const Config& config);
/// "gpt2-from-scratch, batch 8 × 1,024 tokens, fp32, adamw" and whatever else is not the default.
std::string run_words(const Config& config);

/// Largest first, shares of `allocated`.
std::string category_table(const Ledger& ledger, const Session& session);

/// Where the peak is and what is asked for there; a formula knows no moments.
std::string peak_sentence(const Report& report);

/// Two sentences: what was asked, what there was, and what that means.
std::string oom_sentence(const OutOfMemory& oom);

/// What repeats from where, or that it is not known.
std::string settled_sentence(const Report& report, const Session& session);

/// What the prediction rests on: recorded runs like it, and what is assumed.
void basis(const Report& report, Session& session);

/// Pretty JSON and a newline.
void print_json(const nlohmann::ordered_json& json, Session& session);

/// For commands that show events: throws Failure if the request wants closed forms only.
void needs_replay(const Config& config, const std::string& command);

/// A whole number from 0 to `most` for the option `flag`; throws Failure.
std::uint64_t whole_number(const std::string& flag, const std::string& text, std::uint64_t most);

}  // namespace whatfits::cli
