#include "measure/sweep.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "measure/files.h"

namespace whatfits::native {

namespace {

/// Finished lines of an earlier sweep. A line that was being written when everything stopped is cut off and does not count.
std::vector<Json> read_rows(const std::string& path) {
  std::vector<Json> rows;
  if (access(path.c_str(), F_OK) != 0) return rows;
  const std::string text = read_whole("--out", path);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    Json row = Json::parse(text.substr(at, end - at), nullptr, false);
    if (row.is_object() && row.contains("batch") && row.contains("status")) rows.push_back(std::move(row));
    at = end + 1;
  }
  return rows;
}

std::string rows_text(const std::vector<Json>& rows) {
  std::string text;
  for (const Json& row : rows) text += row.dump() + "\n";
  return text;
}

/// In the child: runs one batch and writes its row into the pipe.
[[noreturn]] void run_child(const Config& config, const MeasureOptions& options, int pipe) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a sweep that is killed leaves nothing running
  Json row;
  try {
    MeasureOptions one = options;
    one.fixture.clear();
    one.save.clear();
    const RunResult result = run_measured(config, one, [&](const StepResult& step) {
      std::ostringstream line;
      line << "batch " << config.batch << "  step " << step.step << "  loss " << step.loss << "  " << step.tokens_per_second
           << " tokens/s\n";
      const std::string text = line.str();
      if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
    });
    row["status"] = result.measured.oom ? "oom" : "done";
    row["fixture"] = fixture_json(result, options);
  } catch (const std::exception& e) {
    row["status"] = "impossible";
    row["why"] = e.what();
  }
  const std::string text = row.dump();
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = write(pipe, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);
    at += static_cast<std::size_t>(n);
  }
  _exit(0);
}

/// The row of one batch, run in a process of its own.
Json run_apart(const Config& config, const MeasureOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error(std::string("--batches: ") + std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error(std::string("--batches: cannot start a process: ") + std::strerror(errno));
  if (child == 0) {
    close(ends[0]);
    run_child(config, options, ends[1]);
  }
  close(ends[1]);
  std::string text;
  char chunk[1 << 14];
  for (;;) {
    const ssize_t n = read(ends[0], chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(chunk, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Json row = Json::parse(text, nullptr, false);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && row.is_object()) return row;
  row = Json::object();
  row["status"] = "crashed";
  row["why"] = WIFSIGNALED(status) ? "killed by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")"
                                   : "ended with status " + std::to_string(WEXITSTATUS(status));
  return row;
}

bool is_final(const Json& row) { return row["status"] != "crashed"; }

}  // namespace

std::vector<Json> run_sweep(const Config& config, const MeasureOptions& options) {
  const std::string rows_path = options.out + "/rows.jsonl";
  std::vector<Json> rows;
  make_folder("--out", options.out);
  const std::vector<Json> before = read_rows(rows_path);
  if (!before.empty() && !options.resume)
    throw Impossible("--out: \"" + options.out + "\" holds a sweep already: --resume goes on with it, or choose another folder");
  for (const Json& row : before) {
    if (is_final(row)) rows.push_back(row);
  }
  // The file anew: without half a line at its end, and without what crashed and is to be run again.
  write_whole("--out", rows_path, rows_text(rows));
  for (const std::int64_t batch : options.batches) {
    if (std::any_of(rows.begin(), rows.end(), [&](const Json& row) { return row["batch"] == batch; })) continue;
    Config one = config;
    one.batch = batch;
    Json row = {{"batch", batch}, {"seq_len", config.seq_len}};
    row.update(run_apart(one, options));
    append_line("--out", rows_path, row.dump());
    rows.push_back(row);
    std::sort(rows.begin(), rows.end(), [](const Json& a, const Json& b) { return a["batch"] < b["batch"]; });
    write_whole("--out", options.out + "/sweep.csv", sweep_csv(rows));
    write_whole("--out", options.out + "/sweep.svg", sweep_svg(rows, config));
    write_whole("--out", options.out + "/sweep.json", sweep_json(rows).dump(1) + "\n");
    const std::string why = row.contains("why") ? ", " + row["why"].get<std::string>() : "";
    std::fprintf(stderr, "batch %lld: %s%s\n", static_cast<long long>(batch), row["status"].get<std::string>().c_str(), why.c_str());
  }
  return rows;
}

}  // namespace whatfits::native
