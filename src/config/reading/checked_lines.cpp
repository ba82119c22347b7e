#include "config/reading/checked_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/strings/lines.h"
#include "base/strings/utf8.h"
#include "config/option_secrets.h"

namespace hone::config {
namespace {

constexpr std::size_t kShown = 60;  // characters of a value

std::string shown_value(const Settings& settings, const std::string& option) {
  return base::cut_text(yaml_text(redact_secrets(option, settings.value(option))), kShown);
}

CheckedLine line_of(const ReadName& name, const Settings& settings) {
  using As = CheckedLine::As;
  CheckedLine out{.as = As::kKept, .where = name.where, .name = name.name, .what = {}, .fix = {}};
  switch (name.as) {
    case ReadName::As::kOption: {
      const Option* row = settings.schema().find(name.option);
      const bool ignored = row != nullptr && row->option_class == OptionClass::kIgnored;
      out.as = ignored ? As::kIgnored : As::kKept;
      out.what = ignored ? std::string(row->reason) : shown_value(settings, name.option);
      break;
    }
    case ReadName::As::kFormer:
      out.as = As::kRenamed;
      out.what = fmt::format("{}: {}", name.option, shown_value(settings, name.option));
      break;
    case ReadName::As::kMixed:
      out.as = As::kRenamed;
      out.what = "part of dataset_name, datasets and their splits";
      break;
    case ReadName::As::kNoted:
      out.as = As::kIgnored;
      out.what = name.why;
      break;
    case ReadName::As::kPassed:
      out.as = As::kIgnored;
      out.what = "passed over, as ignore_unknown says";
      break;
    case ReadName::As::kMistake:
      out.as = As::kRefused;
      break;
  }
  return out;
}

// What the keys of deepspeed and its like set, as the run's note says it: "read gradient_clipping as max_grad_norm: 0.5".
std::string keys_read(const ReadRun& run, const ReadName& name) {
  const std::string begin = name.option + ": ";
  for (const std::string& note : run.plan.notes) {
    if (name.as == ReadName::As::kOption && note.starts_with(begin + "read "))
      return note.substr(begin.size());
  }
  return {};
}

// The number after the file's name: "run.yaml:7".
std::size_t line_number(const std::string& where, const std::string& file_name) {
  if (!where.starts_with(file_name + ":")) return 0;
  std::size_t out = 0;
  for (const char c : where.substr(file_name.size() + 1)) {
    if (c < '0' || c > '9') return 0;
    out = out * 10 + static_cast<std::size_t>(c - '0');
  }
  return out;
}

bool is_key(const std::string& line, const std::string& name) {
  std::string key = line.substr(0, std::min(line.find(':'), line.size()));
  std::replace(key.begin(), key.end(), '-', '_');
  return line.size() > name.size() && key == name;
}

}  // namespace

std::string_view checked_name(CheckedLine::As as) {
  constexpr std::array<std::string_view, 4> kWords = {"kept", "renamed", "ignored", "refused"};
  return kWords.at(static_cast<std::size_t>(as));
}

CheckedRun checked_lines(const ReadRun& run) {
  CheckedRun out;
  for (const ReadName& name : run.settings.names()) {
    CheckedLine& line = out.lines.emplace_back(line_of(name, run.settings));
    if (std::string read = keys_read(run, name); !read.empty()) {
      line.as = CheckedLine::As::kKept;
      line.what = std::move(read);
    }
  }
  for (const base::UserError& mistake : run.settings.mistakes()) {
    const base::ErrorText& text = mistake.text();
    const auto line = std::find_if(out.lines.begin(), out.lines.end(), [&](const CheckedLine& one) {
      return one.where == text.where && one.fix.empty() && one.as != CheckedLine::As::kRenamed;
    });
    if (line == out.lines.end()) {
      out.elsewhere.push_back(mistake);
      continue;
    }
    line->as = CheckedLine::As::kRefused;
    line->what = fmt::format("expected {}; found {}", text.expected, text.found);
    if (!text.cause.empty()) line->what += "; " + text.cause;
    line->fix = text.fix;
  }
  return out;
}

RenamedYaml renamed_yaml(const std::string& text, const ReadRun& run, const std::string& file_name) {
  RenamedYaml out;
  std::vector<std::string> lines = base::lines_of(text);
  for (const ReadName& name : run.settings.names()) {
    if (name.as != ReadName::As::kFormer) continue;
    const FormerName* former = find_former_name(name.name, run.settings.schema().command);
    const std::size_t number = line_number(name.where, file_name);
    const bool plain = former != nullptr && former->fate == Fate::kOption;
    if (!plain || number == 0 || number > lines.size() || !is_key(lines[number - 1], name.name)) continue;
    std::string& line = lines[number - 1];
    const std::string before = line;
    line = former->words.empty()
               ? name.option + line.substr(line.find(':'))
               : fmt::format("{}: {}", name.option, yaml_text(run.settings.value(name.option)));
    out.diff.push_back("-" + before);
    out.diff.push_back("+" + line);
  }
  for (const std::string& line : lines) out.text += line + "\n";
  return out;
}

}  // namespace hone::config
