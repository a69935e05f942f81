// One function a command. Each appends what it has to say to session.out and returns the exit status; Failure is thrown for what is
// the user's to mend.
#pragma once

#include "cli/arguments.h"
#include "cli/session.h"

namespace whatfits::cli {

int run_fit(const Arguments& arguments, Session& session);
int run_estimate(const Arguments& arguments, Session& session);
int run_ledger(const Arguments& arguments, Session& session);
int run_timeline(const Arguments& arguments, Session& session);
int run_sweep(const Arguments& arguments, Session& session);
int run_advise(const Arguments& arguments, Session& session);
int run_explain(const Arguments& arguments, Session& session);
int run_sizes(const Arguments& arguments, Session& session);
int run_compare(const Arguments& arguments, Session& session);
int run_snapshot(const Arguments& arguments, Session& session);
int run_calibrate(const Arguments& arguments, Session& session);
int run_measure(const Arguments& arguments, Session& session);
int run_accuracy(const Arguments& arguments, Session& session);
int run_devices(const Arguments& arguments, Session& session);
int run_models(const Arguments& arguments, Session& session);
int run_version(const Arguments& arguments, Session& session);

}  // namespace whatfits::cli
