// Files of a folder of fixtures. What is wrong with one is said with its name, so that one line tells what to mend.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace whatfits::accuracy {

/// Names within the folder, "torch/parallel.jsonl", ascending: the files of folder/part that end so. Throws std::runtime_error if there is
/// no such folder.
std::vector<std::string> files_of(const std::string& folder, const std::string& part, const std::string& extension);

/// Calls `use` with the JSON value of folder/name. Throws std::runtime_error if the file cannot be read, is no JSON, or `use` finds a
/// value missing or of another kind.
void with_json(const std::string& folder, const std::string& name, const std::function<void(const nlohmann::json&)>& use);

/// The same for each line of a file, blank ones apart.
void with_lines(const std::string& folder, const std::string& name, const std::function<void(const nlohmann::json&)>& use);

}  // namespace whatfits::accuracy
