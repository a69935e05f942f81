// What others published of their own runs (fixtures/published/others.json), beside the prediction of the request that says the same run
// (fixtures/published/requests.json).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "whatfits/config.h"

namespace whatfits::accuracy {

/// One counter of one published run, in bytes; for a verdict 1 fits, 0 does not.
struct OthersReading {
  enum class Kind : std::uint8_t {
    pytorch,     ///< PyTorch's own allocated or reserved bytes
    nvidia_smi,  ///< of the device: the context is in it
    verdict,
  } kind = Kind::pytorch;
  std::string counter;  ///< as the source names it
  std::string value;    ///< the value of the report that answers to it: "peak.allocated"
  std::int64_t predicted = 0;
  std::int64_t measured = 0;
  std::int64_t halfwidth = 0;  ///< half a unit of the last digit that the source printed

  /// Of the measured bytes, signed.
  double error_percent() const;
};

/// A published run and its prediction.
struct OthersRow {
  std::string id, grade, group;  ///< of others.json; rows of no group are named after the first word of their id
  Config request;                ///< that says it
  std::string source;            ///< the address it was published at
  std::vector<std::string> assumed;
  std::string why;                      ///< what is known of a large error
  std::string peak_phase;               ///< where the prediction has its peak
  std::string needs_peak_in;            ///< the phase that the peak has to be in, for the request to stand for this run; empty: any
  std::vector<OthersReading> readings;  ///< the first is the one that counts
};

struct Others {
  std::vector<OthersRow> rows;  ///< in the order of requests.json
  struct Reason {
    std::string why;
    std::map<std::string, std::size_t> by_grade;  ///< rows of each grade
    std::size_t rows = 0;
  };
  std::vector<Reason> not_covered;  ///< largest first
  std::size_t published = 0;        ///< rows of others.json
};

/// Both files of a folder of fixtures. Throws std::runtime_error for a row without an entry or with two, for an entry without a row, for a
/// request that is not valid, and for a counter that the row does not have.
Others compare_others(const std::string& folder);

/// Of the errors' sizes: the middle one (the mean of two), and the least that is not below nine in ten of them. 0 of nothing.
struct Spread {
  std::size_t count = 0;
  double median = 0, ninetieth = 0;  ///< percent
};
Spread spread(std::vector<double> error_percents);

/// Of the counting readings of PyTorch's own counters: of rows of this grade ("" for all), of this group ("" for all).
Spread spread_of(const Others& others, const std::string& grade, const std::string& group);

}  // namespace whatfits::accuracy
