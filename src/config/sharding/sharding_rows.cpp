#include "config/sharding/sharding_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/option_table.h"

namespace hone::config {
namespace {

constexpr std::size_t kWrapAt = 130;

std::string answer(const ShardingRow& row) {
  switch (row.fate) {
    case KeyFate::kSection:
      return "its keys are below";
    case KeyFate::kOption:
      return fmt::format("the option `{}`", row.text);
    case KeyFate::kNoted:
      return fmt::format("ignored, with a note: {}", row.text);
    case KeyFate::kRefused:
      if (row.fine == "true") return fmt::format("refused unless true: {}", row.text);
      return fmt::format("refused unless off{}: {}", row.fine.empty() ? "" : fmt::format(" or {}", row.fine),
                         row.text);
    case KeyFate::kRead:
      return std::string(row.text);
  }
  return {};
}

void append_wrapped(std::string& out, const std::string& text) {
  std::string line;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && line.size() + 1 + word.size() > kWrapAt) {
      out += line + "\n";
      line = " ";
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  out += line + "\n";
}

}  // namespace

const ShardingRow* ShardingTable::find(std::string_view under, std::string_view name) const {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const ShardingRow& one) {
    const bool here = one.under == under || (!under.empty() && contains_word(one.under, under));
    return here && contains_word(one.names, name);
  });
  return row == rows.end() ? nullptr : &*row;
}

std::vector<std::string> ShardingTable::names_under(std::string_view under) const {
  std::vector<std::string> out;
  for (const ShardingRow& row : rows) {
    if (row.under != under && (under.empty() || !contains_word(row.under, under))) continue;
    for (std::string& name : split_words(row.names)) out.push_back(std::move(name));
  }
  return out;
}

const std::array<const ShardingTable*, 3>& sharding_tables() {
  static const std::array<const ShardingTable*, 3> tables = {&deepspeed_table(), &accelerate_table(),
                                                             &fsdp_table()};
  return tables;
}

std::string sharding_markdown() {
  std::string out;
  for (const ShardingTable* table : sharding_tables()) {
    out += fmt::format("{}:\n\n", table->title);
    // Rows of one section and one answer are one item.
    std::vector<std::pair<std::string, std::string>> items;
    for (const ShardingRow& row : table->rows) {
      if (row.fate == KeyFate::kSection) continue;
      const std::string end = ": " + answer(row);
      const std::string section =
          row.under.empty() ? "" : fmt::format("of `{}`: ", split_words(row.under).front());
      std::string names;
      for (const std::string& name : split_words(row.names))
        names += fmt::format("{}`{}`", names.empty() ? "" : ", ", name);
      const auto same = std::find_if(items.begin(), items.end(), [&](const auto& item) {
        return item.second == end && item.first.starts_with("- " + section + "`");
      });
      if (same != items.end()) {
        same->first += ", " + names;
      } else {
        items.emplace_back("- " + section + names, end);
      }
    }
    for (const auto& [names, end] : items) append_wrapped(out, names + end);
    out += "\n";
  }
  return out;
}

}  // namespace hone::config
