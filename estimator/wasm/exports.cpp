// The C border of the WebAssembly module. Text goes in by wf_alloc, as UTF-8 with a length; text comes out as the last answer,
// wf_text and wf_text_length, and lives until the next call. Numbers come out as arrays (see session.h), found by wf_data and
// wf_count, likewise. Functions that can be asked something wrong return 1 when the text is the answer and 0 when it is
// {"problems": [...]}; an unknown handle answers with a problem too.
#include <memory>
#include <vector>

#include "answers.h"
#include "questions.h"
#include "session.h"

namespace {

using namespace whatfits;
using namespace whatfits::wasm;

struct Open {
  std::uint32_t handle = 0;
  std::unique_ptr<Session> session;
};

std::vector<Open> open_sessions;
std::uint32_t next_handle = 1;

Session* find(std::uint32_t handle) {
  for (const Open& open : open_sessions) {
    if (open.handle == handle) return open.session.get();
  }
  say(false, R"({"problems":[{"key":"request","value":"","message":"is not open","kind":"statement","line":"request: is not open"}]})");
  return nullptr;
}

/// The session, if it has a step to draw.
Session* find_replayed(std::uint32_t handle) {
  Session* session = find(handle);
  if (session == nullptr || session->replayed()) return session;
  say(false, R"({"problems":[{"key":"engine","value":"formula","message":"has no step to draw; take \"torch\"","kind":"not-allowed",)"
             R"("line":"engine: \"formula\" has no step to draw; take \"torch\""}]})");
  return nullptr;
}

std::vector<std::int64_t> whole_numbers(const double* values, std::uint32_t count) {
  std::vector<std::int64_t> out;
  out.reserve(count);
  // What is no whole number becomes 0, which no request allows.
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(values[i] >= 0 && values[i] < 9e15 ? static_cast<std::int64_t>(values[i]) : 0);
  return out;
}

}  // namespace

WF_EXPORT(wf_ask) std::uint32_t wf_ask(std::uint32_t question, const char* text, std::uint32_t length, double event) {
  if (question > static_cast<std::uint32_t>(Question::presets)) question = 0;
  Answer answer = ask(static_cast<Question>(question), {text, length}, event_of(event));
  return say(answer.ok, std::move(answer.text));
}

/// A handle, or 0 with the problems.
WF_EXPORT(wf_open) std::uint32_t wf_open(const char* text, std::uint32_t length) {
  Config config;
  Answer problems;
  if (!read_request({text, length}, config, problems)) return say(false, std::move(problems.text));
  open_sessions.push_back({next_handle, std::make_unique<Session>(config)});
  say(true, open_sessions.back().session->request());
  return next_handle++;
}

WF_EXPORT(wf_close) void wf_close(std::uint32_t handle) {
  show_none();
  std::erase_if(open_sessions, [handle](const Open& open) { return open.handle == handle; });
}

WF_EXPORT(wf_report) std::uint32_t wf_report(std::uint32_t handle) {
  const Session* session = find(handle);
  return session == nullptr ? 0 : say(true, session->report());
}

WF_EXPORT(wf_summary) std::uint32_t wf_summary(std::uint32_t handle) {
  const Session* session = find(handle);
  return session == nullptr ? 0 : say(true, session->summary());
}

WF_EXPORT(wf_ledger) std::uint32_t wf_ledger(std::uint32_t handle, double event) {
  Session* session = find(handle);
  return session == nullptr ? 0 : say(true, session->ledger(event_of(event)));
}

WF_EXPORT(wf_pool) std::uint32_t wf_pool(std::uint32_t handle, double event) {
  const Session* session = find_replayed(handle);
  return session == nullptr ? 0 : say(true, session->pool(event_of(event)));
}

WF_EXPORT(wf_timeline) std::uint32_t wf_timeline(std::uint32_t handle, std::int32_t step) {
  Session* session = find_replayed(handle);
  if (session == nullptr) return 0;
  say(true, session->timeline(step));
  return show(session->timeline_arrays());
}

WF_EXPORT(wf_columns) std::uint32_t wf_columns(std::uint32_t handle, double begin, double end, std::uint32_t width) {
  Session* session = find_replayed(handle);
  if (session == nullptr) return 0;
  // No screen has more pixels in a line; a slip must not become a gigabyte.
  return show(session->columns(index_of(begin), index_of(end), width < 65536 ? width : 65536));
}

WF_EXPORT(wf_fit_begin) std::uint32_t wf_fit_begin(std::uint32_t handle, std::uint32_t seq_len) {
  Session* session = find(handle);
  if (session == nullptr) return 0;
  session->fit_begin(seq_len != 0 ? Axis::seq_len : Axis::batch);
  return 1;
}

/// 1 while there is more to do.
WF_EXPORT(wf_fit_step) std::uint32_t wf_fit_step(std::uint32_t handle) {
  Session* session = find(handle);
  return session != nullptr && session->fit_step() ? 1 : 0;
}

WF_EXPORT(wf_fit_result) std::uint32_t wf_fit_result(std::uint32_t handle) {
  const Session* session = find(handle);
  return session == nullptr || !session->fitting() ? 0 : say(true, session->fit_result());
}

/// Alone, and at once: what a slider needs on every frame.
WF_EXPORT(wf_fit_largest) double wf_fit_largest(std::uint32_t handle) {
  const Session* session = find(handle);
  return session == nullptr || !session->fitting() ? 0 : static_cast<double>(session->fit_largest());
}

WF_EXPORT(wf_advise_begin) std::uint32_t wf_advise_begin(std::uint32_t handle) {
  Session* session = find(handle);
  if (session == nullptr) return 0;
  session->advise_begin();
  return 1;
}

/// 1 while there is more to do.
WF_EXPORT(wf_advise_step) std::uint32_t wf_advise_step(std::uint32_t handle) {
  Session* session = find(handle);
  return session != nullptr && session->advise_step() ? 1 : 0;
}

WF_EXPORT(wf_advise_result) std::uint32_t wf_advise_result(std::uint32_t handle) {
  const Session* session = find(handle);
  return session == nullptr || !session->advising() ? 0 : say(true, session->advise_result());
}

/// `values`: the batches, then the sequence lengths.
WF_EXPORT(wf_sweep_begin)
std::uint32_t wf_sweep_begin(std::uint32_t handle, const double* values, std::uint32_t batches, std::uint32_t seq_lens) {
  Session* session = find(handle);
  if (session == nullptr) return 0;
  std::string problems = session->sweep_begin(whole_numbers(values, batches), whole_numbers(values + batches, seq_lens));
  return problems.empty() ? 1 : say(false, std::move(problems));
}

/// 1 while there is more to do.
WF_EXPORT(wf_sweep_step) std::uint32_t wf_sweep_step(std::uint32_t handle) {
  Session* session = find(handle);
  return session != nullptr && session->sweep_step() ? 1 : 0;
}

WF_EXPORT(wf_sweep_cells) std::uint32_t wf_sweep_cells(std::uint32_t handle) {
  Session* session = find(handle);
  return session == nullptr ? 0 : show(session->sweep_arrays());
}
