#include "config/datasets/data_patterns.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

namespace hone::config {
namespace {

namespace fs = base::fs;
using Names = std::vector<std::string>;

// Endings and the format (the module of datasets) that they name, those that win a draw first.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kEndings = {{{"parquet", "parquet"},
                                                                                    {"arrow", "arrow"},
                                                                                    {"jsonl", "json"},
                                                                                    {"json", "json"},
                                                                                    {"csv", "csv"},
                                                                                    {"ndjson", "json"},
                                                                                    {"tsv", "tsv"}}};
constexpr std::array<std::string_view, 6> kIgnored = {"README.md",         "config.json",
                                                      "dataset_info.json", "dataset_infos.json",
                                                      "dummy_data.zip",    "dataset_dict.json"};

struct SplitWords {
  std::string_view split;
  std::array<std::string_view, 4> words;
};
constexpr std::array<SplitWords, 3> kKeywords = {{{"train", {"train", "training"}},
                                                  {"validation", {"validation", "valid", "dev", "val"}},
                                                  {"test", {"test", "testing", "eval", "evaluation"}}}};

std::string_view name_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::vector<std::string_view> folders_of(std::string_view path) {
  std::vector<std::string_view> out;
  for (std::size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
    out.push_back(path.substr(0, slash));
    path.remove_prefix(slash + 1);
  }
  return out;
}

// The words after the dots of a file's name: "train.jsonl.gz" gives jsonl, gz.
std::vector<std::string> endings_of(std::string_view path) {
  std::vector<std::string> out;
  std::string_view name = name_of(path);
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    name.remove_prefix(dot + 1);
    std::string word(name.substr(0, name.find('.')));
    for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    out.push_back(std::move(word));
  }
  return out;
}

std::optional<std::string_view> format_of(std::string_view ending) {
  const auto* const found =
      std::find_if(kEndings.begin(), kEndings.end(), [&](const auto& each) { return each.first == ending; });
  if (found == kEndings.end()) return std::nullopt;
  return found->second;
}

// datasets' NON_WORDS_CHARS.
bool is_separator(char c) {
  return c == '-' || c == '.' || c == '_' || c == ' ' || (c >= '0' && c <= '9');
}

// `word` in `text` after its beginning or a separator (`first`: only the beginning, or only a separator), and before
// a separator, or, where `may_end`, its end.
bool holds_word(std::string_view text, std::string_view word, bool at_beginning, bool may_end) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at_beginning ? at == 0 : at > 0 && is_separator(text[at - 1]);
    const bool ends = end == text.size() ? may_end : is_separator(text[end]);
    if (begins && ends) return true;
  }
  return false;
}

// The patterns of a keyword, in order: **/{word}[sep]* and **/*[sep]{word}[sep]* of files, the same of folders.
bool file_has(std::string_view path, std::string_view word, bool at_beginning) {
  return holds_word(name_of(path), word, at_beginning, /*may_end=*/false);
}
bool folder_has(std::string_view path, std::string_view word, bool at_beginning) {
  const std::vector<std::string_view> folders = folders_of(path);
  return std::any_of(folders.begin(), folders.end(), [&](std::string_view folder) {
    return holds_word(folder, word, at_beginning, /*may_end=*/true);
  });
}

// Pattern by pattern as datasets resolves them, a file once.
template <typename Has>
std::vector<SplitFiles> by_keyword(const fs::path& folder, const Names& files, Has has) {
  std::vector<SplitFiles> out;
  for (const SplitWords& keywords : kKeywords) {
    SplitFiles split{.split = std::string(keywords.split), .files = {}};
    std::set<std::string_view> taken;
    for (const std::string_view word : keywords.words) {
      if (word.empty()) continue;
      for (const bool at_beginning : {true, false}) {
        for (const std::string& file : files) {
          if (!has(file, word, at_beginning) || !taken.insert(file).second) continue;
          split.files.push_back(folder / file);
        }
      }
    }
    if (!split.files.empty()) out.push_back(std::move(split));
  }
  return out;
}

// data/{split}-00000-of-00001*.*
std::optional<std::string> sharded_split(std::string_view path) {
  if (!path.starts_with("data/")) return std::nullopt;
  const std::string_view name = path.substr(5);
  const std::size_t of = name.rfind("-of-");
  if (name.find('/') != std::string_view::npos || of == std::string_view::npos || of < 7) return std::nullopt;
  const auto digits = [&](std::size_t at) {
    return at + 5 <= name.size() &&
           name.substr(at, 5).find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (name[of - 6] != '-' || !digits(of - 5) || !digits(of + 4)) return std::nullopt;
  if (name.find('.', of + 9) == std::string_view::npos) return std::nullopt;
  return std::string(name.substr(0, of - 6));
}

std::vector<SplitFiles> by_shards(const fs::path& folder, const Names& files) {
  std::map<std::string, SplitFiles> found;
  for (const std::string& file : files) {
    const auto split = sharded_split(file);
    if (!split) continue;
    found[*split].split = *split;
    found[*split].files.push_back(folder / file);
  }
  std::vector<SplitFiles> out;
  for (const SplitWords& each : kKeywords) {  // train, validation, test, then the others by name
    const auto at = found.find(std::string(each.split));
    if (at == found.end()) continue;
    out.push_back(std::move(at->second));
    found.erase(at);
  }
  for (auto& [name, split] : found) out.push_back(std::move(split));
  return out;
}

bool is_ignored(const fs::path& relative) {
  const std::string name = relative.filename().string();
  if (std::find(kIgnored.begin(), kIgnored.end(), name) != kIgnored.end()) return true;
  return name.starts_with('.');
}

// Of a set [abc], [a-z], [!a]: whether it has c; moves `pattern` past it.
bool set_has(std::string_view& pattern, char c) {
  const std::size_t end = pattern.find(']', 2);
  const bool negated = pattern[1] == '!';
  const std::string_view set = pattern.substr(negated ? 2 : 1, end - (negated ? 2 : 1));
  bool has = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (i + 2 < set.size() && set[i + 1] == '-') {
      has = has || (set[i] <= c && c <= set[i + 2]);
      i += 2;
    } else {
      has = has || set[i] == c;
    }
  }
  pattern.remove_prefix(end + 1);
  return has != negated;
}

// One character of the pattern that is no star; moves both past it.
bool step(std::string_view& pattern, std::string_view& path) {
  if (path.empty()) return false;
  const char c = path.front();
  path.remove_prefix(1);
  if (pattern.front() == '[' && pattern.find(']', 2) != std::string_view::npos) {
    return set_has(pattern, c) && c != '/';
  }
  const bool same = pattern.front() == '?' ? c != '/' : pattern.front() == c;
  pattern.remove_prefix(1);
  return same;
}

}  // namespace

bool has_magic(std::string_view path) {
  return path.find_first_of("*?[") != std::string_view::npos;
}

// Two places to go back to: the last '*', which does not cross a slash, and the last '**', which does.
bool matches(std::string_view pattern, std::string_view path) {
  struct Star {
    std::string_view pattern, path;
    bool there = false;
    bool names = false;  // "**/": goes on at the beginning of a name
  };
  Star one, two;
  while (true) {
    if (pattern.starts_with("**")) {
      const bool names = pattern.starts_with("**/");
      pattern.remove_prefix(names ? 3 : 2);
      two = {pattern, path, true, names};
      one.there = false;
      continue;
    }
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      one = {pattern, path, true, false};
      continue;
    }
    if (pattern.empty() && path.empty()) return true;
    if (!pattern.empty() && step(pattern, path)) continue;
    if (one.there && !one.path.empty() && one.path.front() != '/') {
      one.path.remove_prefix(1);
    } else if (two.there && !two.path.empty()) {
      const std::size_t slash = two.path.find('/');
      if (two.names && slash == std::string_view::npos) return false;
      two.path.remove_prefix(two.names ? slash + 1 : 1);
      one.there = false;
      pattern = two.pattern;
      path = two.path;
      continue;
    } else {
      return false;
    }
    pattern = one.pattern;
    path = one.path;
  }
}

std::vector<std::string> files_below(const fs::path& folder, std::size_t most) {
  Names out;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && at != fs::recursive_directory_iterator() && out.size() < most; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (at->is_directory(ignored)) {
      if (name.starts_with('.') || name.starts_with("__")) at.disable_recursion_pending();
      continue;
    }
    if (!at->is_regular_file(ignored) || is_ignored(at->path())) continue;
    out.push_back(at->path().lexically_relative(folder).generic_string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string main_format(const Names& files) {
  std::map<std::string, int> counts;
  for (const std::string& file : files) {
    for (const std::string& ending : endings_of(file)) ++counts[ending];
  }
  std::string out;
  int most = 0;
  for (const auto& [ending, format] : kEndings) {
    const auto count = counts.find(std::string(ending));
    if (count == counts.end() || count->second <= most) continue;
    most = count->second;
    out = std::string(format);
  }
  return out;
}

Names files_of_format(const Names& files, const std::string& format) {
  Names out;
  std::copy_if(files.begin(), files.end(), std::back_inserter(out), [&](const std::string& file) {
    const std::vector<std::string> endings = endings_of(file);
    return std::any_of(endings.begin(), endings.end(),
                       [&](const std::string& ending) { return format_of(ending) == format; });
  });
  return out;
}

std::vector<SplitFiles> splits_by_name(const fs::path& folder, const Names& files) {
  std::vector<SplitFiles> out = by_shards(folder, files);
  if (out.empty()) out = by_keyword(folder, files, folder_has);
  if (out.empty()) out = by_keyword(folder, files, file_has);
  if (out.empty() && !files.empty()) {
    out.push_back({.split = "train", .files = {}});
    for (const std::string& file : files) out.back().files.push_back(folder / file);
  }
  return out;
}

}  // namespace hone::config
