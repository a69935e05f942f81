// How long it takes, in words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/session.h"
#include "whatfits/pace.h"

namespace whatfits::cli {

/// The number of --tokens, a billion if it was not given; throws Failure.
std::uint64_t tokens_of(const std::optional<std::string>& flag);

/// A number to three digits: "59,100".
std::string about(std::uint64_t n);

/// A range of time for a step and for `tokens`, what it rests on, and what others measured nearby. Nothing for a formula.
void time_section(const std::optional<Pace>& pace, std::uint64_t tokens, Session& session);

}  // namespace whatfits::cli
