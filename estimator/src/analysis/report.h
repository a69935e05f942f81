#pragma once

#include "whatfits/config.h"
#include "whatfits/program.h"
#include "whatfits/report.h"

namespace whatfits {

/// Completes a trace to the whole answer: hashes, the account at the peak, what was assumed.
Report make_report(const Config& config, const Program& program, Trace trace);

/// The same without hashes and rows of the ledger: each of these costs a replay.
Report make_summary(const Config& config, const Program& program, Trace trace);

/// The answer of the engines that replay nothing: an account's lines, summed.
Report account_report(const Config& config);

}  // namespace whatfits
