// hone check of another trainer's file.
#pragma once

#include <optional>

#include "config/commands/doctor_plan.h"
#include "config/others/read_other.h"
#include "config/others/recognize.h"

namespace hone::commands {

// Whose file asked.config is, by asked.as, else by its names; null: hone's own, TRL's YAML, or no file.
std::optional<config::Recognized> recognized_file(const config::DoctorPlan& asked);
// Null: the file is hone's own or TRL's. UserError for options of the one with a file of the other.
std::optional<config::Recognized> whose_file(const config::DoctorPlan& asked);

// Returns what the file asks for, with what was given beside it.
config::OtherRun read_asked(const config::DoctorPlan& asked, const config::Recognized& whose);

// Prints what the file becomes, what is unknown and what is refused, and counts the checks; 0, or 2 where
// something known is wrong.
int check_others(const config::DoctorPlan& asked, const config::Recognized& whose);

// The first row: its columns, then how the model reads it; true when a run would refuse one of the first
// (check.cpp).
bool print_example(const config::Plan& plan);

}  // namespace hone::commands
