// The native side of the parity test and of the speed comparison.
//   whatfits_parity          lines of {"question": N, "event": N or null, "text": "..."} in, an answer a line out
//                            (with "file": a snapshot laid over that request)
//   whatfits_parity read FILE   seconds of the processor's that reading a snapshot takes, and its bytes
//   whatfits_parity bench    times of what an interactive page does, as JSON, for the requests on stdin (a line each)
#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "questions.h"
#include "recording.h"
#include "session.h"
#include "whatfits/request.h"

namespace {

using namespace whatfits;
using namespace whatfits::wasm;

/// FNV-1a over the words of an answer in numbers: the other side has the same bytes or it does not.
std::string fingerprint(const Arrays& arrays) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::uint64_t word : arrays.words) hash = (hash ^ word) * 0x100000001b3;
  return std::to_string(arrays.count) + ":" + std::to_string(hash);
}

/// What a page draws: question 100 of this test only.
std::string drawing(const std::string& text, std::uint64_t event) {
  Config config;
  Answer problems;
  if (!read_request(text, config, problems)) return problems.text;
  Session session(config);
  if (!session.replayed()) return "formula";
  std::string out = session.summary() + session.timeline(-1);
  out += fingerprint(session.timeline_arrays());
  out += ' ' + fingerprint(session.columns(0, 1000000, 797));
  out += ' ' + fingerprint(session.columns(100, 150, 640));
  out += session.pool(event) + session.ledger(event);
  return out;
}

/// What a page shows of a measured run: question 101 of this test only.
std::string measured(const std::string& file, const std::string& text, std::uint64_t event) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  Recording recording(snapshot::ReadLimits{});
  constexpr std::size_t kPiece = 1000;
  for (std::size_t at = 0; at < bytes.size() && recording.feed(bytes.data() + at, std::min(kPiece, bytes.size() - at)); at += kPiece) {
  }
  std::string out = recording.finish().text;
  if (!recording.read()) return out;
  out += recording.compare(text).text;
  out += fingerprint(recording.columns(0, 1000000, 797)) + ' ' + fingerprint(recording.columns(100, 150, 640));
  return out + recording.at(static_cast<std::size_t>(event));
}

void read_file(const char* file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  snapshot::SnapshotReader reader;
  const std::clock_t start = std::clock();
  constexpr std::size_t kPiece = std::size_t{256} * 1024;
  for (std::size_t at = 0; at < bytes.size() && reader.feed(bytes.data() + at, std::min(kPiece, bytes.size() - at)); at += kPiece) {
  }
  const bool ok = reader.finish().has_value();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::cout << Json{{"ok", ok}, {"seconds", seconds}, {"bytes", bytes.size()}, {"events", reader.events_read()}}.dump() << '\n';
}

void answer_lines() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    const Json in = Json::parse(line);
    const auto question = in["question"].get<std::uint32_t>();
    const auto text = in["text"].get<std::string>();
    const std::uint64_t event = in["event"].is_null() ? kAtPeak : in["event"].get<std::uint64_t>();
    if (question == 101) {
      std::cout << measured(in["file"].get<std::string>(), text, event) << '\n';
      continue;
    }
    std::cout << (question == 100 ? drawing(text, event) : ask(static_cast<Question>(question), text, event).text) << '\n';
  }
}

template <typename Work>
double milliseconds(int times, Work work) {
  double best = 1e300;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (took.count() < best) best = took.count();
  }
  return best;
}

void bench() {
  for (std::string text; std::getline(std::cin, text);) {
    Config config;
    Answer problems;
    if (!read_request(text, config, problems)) continue;
    Json out;
    out["open"] = milliseconds(20, [&] { const Session session(config); });
    Session session(config);
    out["report"] = milliseconds(20, [&] { session.report(); });
    out["summary"] = milliseconds(20, [&] { session.summary(); });
    out["timeline"] = milliseconds(20, [&] {
      session.timeline(-1);
      session.timeline_arrays();
    });
    out["columns"] = milliseconds(20, [&] { session.columns(0, 1000000, 800); });
    out["ledger"] = milliseconds(20, [&] { session.ledger(3000); });
    out["pool"] = milliseconds(20, [&] { session.pool(3000); });
    out["fit"] = milliseconds(3, [&] {
      session.fit_begin(Axis::batch);
      while (session.fit_step()) {
      }
    });
    out["sweep"] = milliseconds(2, [&] {
      session.sweep_begin({4, 8, 12, 16, 20, 24, 28, 32}, {128, 256, 512, 1024});
      while (session.sweep_step()) {
      }
    });
    std::cout << out.dump() << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 1 && std::string_view(argv[1]) == "bench") {
    bench();
  } else if (argc > 2 && std::string_view(argv[1]) == "read") {
    read_file(argv[2]);
  } else {
    answer_lines();
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 2;
}
