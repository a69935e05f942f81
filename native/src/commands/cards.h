// One request on several cards.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/session.h"

namespace whatfits::cli {

struct Card {
  std::string id;  ///< as asked for; empty for the request's own
  nlohmann::json request;
};

/// The request once for each card of --devices: a list of ids, or "all" for every card of the catalogue that can be replayed.
std::vector<Card> cards_of(const Arguments& arguments, const nlohmann::json& request);

/// fit --devices: which is the smallest of them that runs the request as it is.
int run_smallest_card(const Arguments& arguments, Session& session);

}  // namespace whatfits::cli
