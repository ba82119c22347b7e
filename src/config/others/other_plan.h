// Another trainer's file as hone's run: read, translated, checked as hone checks its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/others/other_run.h"
#include "config/others/recognize.h"

namespace hone::config {

struct OtherAsked {
  std::string path;          // the trainer's file
  std::string dataset_info;  // LLaMA-Factory's table of sets; empty: beside the file, or in its dataset_dir
  std::string data;          // rows in the place of those that the file names
  std::vector<std::string> script_arguments = {};  // of a Python script, as on its command line
};

// The run that `text` describes; combinations that hone refuses are among its refused. UserError for a text
// that cannot be read at all. Reads no disk but LLaMA-Factory's dataset_info.json.
OtherRun read_other(const std::string& text, const OtherAsked& asked, const Recognized& whose);

// hone's own file of the run: `hone METHOD --config FILE` does it. Options only: what is unknown or refused
// is told in comments.
std::string hone_file(const OtherRun& run);

// {trainer, method, options, defaults_of_trainer, unknown, notes, refused}; defaults_of_trainer are among
// options too.
base::Json other_json(const OtherRun& run);

// The checks of a run, and what each needs before it can be made.
enum class CheckNeeds { kFile, kRows };
struct OtherCheck {
  std::string_view what;
  CheckNeeds needs = CheckNeeds::kFile;
};
std::span<const OtherCheck> other_checks();
// "examined 10 of 14 checks; 4 need rows"; `with_rows`: the rows were examined too.
std::string counted_checks(bool with_rows);

}  // namespace hone::config
