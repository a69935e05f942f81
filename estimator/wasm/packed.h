// The module that unpacks another: unpack.cpp, then join.cpp.
#pragma once

// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define WF_EXPORT(name) extern "C" __attribute__((export_name(#name), used, visibility("default")))
