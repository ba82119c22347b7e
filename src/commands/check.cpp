// hone check: what every line of a configuration becomes, and the first row as the model reads it. No weights.
#include <algorithm>
#include <array>
#include <cctype>
#include <iostream>
#include <optional>

#include "base/error.h"
#include "base/exit_codes.h"
#include "base/files/file.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "commands/check_others.h"
#include "commands/commands.h"
#include "commands/recorded/recorded_script.h"
#include "config/commands/doctor_plan.h"
#include "config/method_of.h"
#include "config/option_secrets.h"
#include "config/reading/checked_lines.h"
#include "config/reading/yaml_value.h"
#include "config/write_plan.h"
#include "data/files/row_source.h"
#include "data/forms/prompts.h"
#include "data/forms/rows.h"
#include "report/terminal/terminal.h"
#include "train/notes/row_exam.h"
#include "train/opening/open_model.h"
#include "train/opening/prompt_form.h"

namespace hone::commands {

namespace {

using base::Json;
using base::kUserMistake;
using config::CheckedLine;

constexpr std::size_t kExampleBytes = 800;

std::string padded(const std::string& text, std::size_t width) {
  return text.size() < width ? text + std::string(width - text.size(), ' ') : text;
}

// "7" of "run.yaml:7"; "--name" as it is.
std::string place(const std::string& where) {
  const std::size_t colon = where.rfind(':');
  return colon == std::string::npos ? where : where.substr(colon + 1);
}

void print_lines(const config::CheckedRun& run) {
  std::size_t names = 4, places = 4;
  for (const CheckedLine& line : run.lines) {
    names = std::max(names, line.name.size());
    places = std::max(places, place(line.where).size());
  }
  names = std::min<std::size_t>(names, 42);
  for (const CheckedLine& line : run.lines) {
    std::cout << padded(place(line.where), places) << "  " << padded(base::printable(line.name), names)
              << "  " << padded(std::string(config::checked_name(line.as)), 7) << "  "
              << base::printable(line.what) << '\n';
    if (!line.fix.empty())
      std::cout << std::string(places + names + 4, ' ') << "do       " << base::printable(line.fix) << '\n';
  }
}

void print_counts(const config::CheckedRun& run, bool refuses_rows) {
  std::array<int, 4> counts{};
  for (const CheckedLine& line : run.lines) ++counts.at(static_cast<std::size_t>(line.as));
  std::cout << "result    " << counts[0] << " kept, " << counts[1] << " renamed, " << counts[2]
            << " ignored, " << static_cast<std::size_t>(counts[3]) + run.elsewhere.size() << " refused"
            << (refuses_rows ? ", and rows\n" : "\n");
}

// The messages, or the text, that a row trains on: a prompt with what follows it.
Json example_of(Json row, const config::Plan& plan) {
  if (config::samples(plan.method)) {
    data::make_prompt(row, train::prompt_form(plan), "the first row");
    return row.value("prompt", Json());
  }
  for (const char* name : {"messages", "conversations"}) {
    if (row.contains(name)) return row.at(name);
  }
  Json out = row.value("prompt", Json());
  for (const char* name : {"completion", "chosen"}) {
    if (!row.contains(name)) continue;
    const Json& more = row.at(name);
    if (out.is_null()) {
      out = more;
    } else if (out.is_array() && more.is_array()) {
      out.insert(out.end(), more.begin(), more.end());
    } else if (out.is_string() && more.is_string()) {
      out = out.get<std::string>() + more.get<std::string>();
    }
    break;
  }
  if (out.is_null() && row.contains(plan.dataset_text_field)) out = row.at(plan.dataset_text_field);
  return out;
}

std::string rendered(const Json& example, Json row, const train::OpenedText& text, bool prompt_only) {
  if (row.contains("input_ids") && row["input_ids"].is_array() && !prompt_only) {
    std::vector<std::int32_t> ids;
    for (const Json& id : row["input_ids"]) {
      if (id.is_number_integer() && id >= 0 && id <= 0x7FFFFFFF) ids.push_back(id.get<std::int32_t>());
    }
    return text.tokenizer.decode(ids, /*skip_special=*/false);
  }
  if (example.is_string()) return example.get<std::string>();
  if (!example.is_array() || text.chat_template == nullptr) return base::dump_json(example);
  data::check_template_columns(row, "the first row");
  return text.chat_template
      ->render({.messages = example,
                .tools = row.value("tools", Json()),
                .template_kwargs = row.value("chat_template_kwargs", Json()),
                .add_generation_prompt = prompt_only})
      .text;
}

// Where the template is from, as a run has it.
std::string template_name(const config::Plan& plan, train::OpenedText& text) {
  if (text.chat_template == nullptr) return "none";
  std::vector<std::string> notes;
  if (auto training = train::open_training_template(plan, text, notes)) {
    text.chat_template = std::move(training);
    return notes.front().substr(notes.front().find(": ") + 2);
  }
  if (!plan.chat_template.empty()) return "chat_template of the configuration";
  return plan.chat_template_path.empty() ? "the tokenizer's own" : plan.chat_template_path;
}

// What a run would say of the first rows; true when it would refuse one.
bool print_exam(const train::RowExam& exam) {
  for (const std::string& note : exam.notes) std::cout << "note      " << base::printable(note) << '\n';
  if (!exam.refused) return false;
  std::cout << "rows      a run refuses them:\n" << base::printable(exam.refused->what()) << '\n';
  return true;
}

}  // namespace

bool print_example(const config::Plan& plan) {
  for (const config::HubRequest& request : plan.downloads)
    std::cout << "download  " << base::printable(config::how_to_fetch(request)) << '\n';
  if (plan.train_rows.sets.empty() || !plan.downloads.empty()) return false;
  train::OpenedText text = train::open_text(plan, train::tokenizer_of_run(plan));
  print_notes(text.tokenizer.notes());
  const train::RowExam exam = train::examine_rows(plan, text);
  const data::RowSource source(train::rows_for(text.tokenizer, plan, plan.train_rows));
  data::RowNames names;
  Json row;
  source.for_first(1, names, [&](Json one, int) { row = std::move(one); });
  std::string columns;
  for (const auto& item : row.items()) columns += (columns.empty() ? "" : ", ") + item.key();
  std::cout << "data      " << base::printable(plan.dataset_name) << ": " << base::printable(columns) << '\n';
  if (!plan.dataset_test.empty())
    std::cout << "          evaluated on " << base::printable(plan.dataset_test) << '\n';
  if (print_exam(exam)) return true;
  std::cout << "template  " << base::printable(template_name(plan, text)) << '\n';
  std::string shown = rendered(example_of(row, plan), row, text, config::samples(plan.method));
  if (shown.size() > kExampleBytes) shown = base::cut_text(shown, kExampleBytes);
  std::cout << "example   the first row as the model reads it\n          | ";
  for (const char c : report::visible_controls(shown)) {
    std::cout << c;
    if (c == '\n') std::cout << "          | ";
  }
  std::cout << '\n';
  return false;
}

namespace {

void fix_names(const config::DoctorPlan& asked, const config::ReadRun& run) {
  const config::RenamedYaml fixed = config::renamed_yaml(base::read_text(asked.config), run, asked.config);
  if (fixed.diff.empty()) {
    std::cout << "fix       nothing to rewrite\n";
    return;
  }
  std::cout << "fix       " << base::printable(asked.config) << '\n';
  for (const std::string& line : fixed.diff) std::cout << "          " << base::printable(line) << '\n';
  base::write_file_atomic(asked.config, fixed.text);
}

// Of a script that was executed: its options as they are in the file of its run.
int print_recorded_json(const config::DoctorPlan& asked, const base::Json& facts,
                        const config::ReadRun& run) {
  base::Json out = facts;
  out["method"] = config::method_name(asked.method);
  out["options"] = config::yaml_value(base::read_text(asked.config), asked.config);
  for (auto& [name, value] : out["options"].items()) value = config::redact_secrets(name, value);
  out["refused"] = base::Json::array();
  for (const base::UserError& mistake : run.settings.mistakes()) out["refused"].push_back(mistake.what());
  std::cout << base::dump_json(out) << '\n';
  return out["refused"].empty() ? 0 : kUserMistake;
}

}  // namespace

int check(const std::vector<std::string>& arguments) {
  config::DoctorPlan asked = config::parse_check(arguments);
  const RecordedScript recorded(asked);
  if (!asked.run) {
    if (const auto whose = whose_file(asked)) return check_others(asked, *whose);
  }
  const config::ReadRun run = config::read_run(asked.method, asked.arguments);
  if (asked.run && asked.json) return print_recorded_json(asked, recorded.facts(), run);
  const config::CheckedRun checked = config::checked_lines(run);
  std::cout << "hone check   " << base::printable(asked.shown()) << (asked.config.empty() ? "" : " · ")
            << "hone " << config::method_name(asked.method) << '\n';
  print_lines(checked);
  for (const base::UserError& mistake : checked.elsewhere)
    std::cout << base::printable(mistake.what()) << '\n';
  bool refuses_rows = false;
  if (run.settings.mistakes().empty()) {
    for (const std::string& note : run.plan.notes) std::cout << "note      " << base::printable(note) << '\n';
    refuses_rows = print_example(run.plan);
  }
  print_counts(checked, refuses_rows);
  if (asked.fix) fix_names(asked, run);
  return run.settings.mistakes().empty() && !refuses_rows ? 0 : kUserMistake;
}

}  // namespace hone::commands
