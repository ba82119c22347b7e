// The commands that need tensors, one file each. main.cpp has checked the arguments before.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/plan.h"

namespace hone::commands {

// argv of the process. Returns the exit code: 0, 2 (UserError, printed to stderr), 70 (our bug), 130
// (Ctrl-C).
int run(int argc, char** argv);

// Says whether there is a function for the command `name`: every row of config/commands/commands.cpp that main.cpp does not
// handle itself.
bool has_command(std::string_view name);

// Prints one line to stderr for each option that was set without effect.
void print_notes(const std::vector<std::string>& notes);

// hone sft --config run.yaml [--option value], and the other methods. Returns 0, kInterrupted, or 3 where the
// doctor's watch paused the run; UserError when the examination fails, or for on_fault: stop.
int train_method(config::Method method, const std::vector<std::string>& arguments);
int generate(const std::vector<std::string>& arguments);  // hone generate --model_name_or_path M --prompt P
int chat(const std::vector<std::string>& arguments);      // hone chat M
int eval(const std::vector<std::string>& arguments);      // hone eval M --tasks T
int verify_served(const std::vector<std::string>& arguments);  // hone verify-served URL --adapter FOLDER
int convert(const std::vector<std::string>& arguments);  // hone convert --input model.gguf --output folder
// hone merge --model_name_or_path M --adapter_name_or_path A
int merge(const std::vector<std::string>& arguments);
int export_model(const std::vector<std::string>& arguments);  // hone export --model_name_or_path M --output F
// hone reward-test --reward_funcs R --dataset_name D
int reward_test(const std::vector<std::string>& arguments);
int doctor(const std::vector<std::string>& arguments);        // hone doctor run.yaml
int plan_ranks(const std::vector<std::string>& arguments);    // hone plan run.yaml --nproc 1,2,4
int check(const std::vector<std::string>& arguments);         // hone check run.yaml
int faults(const std::vector<std::string>& arguments);        // hone faults [CODE]
int bisect(const std::vector<std::string>& arguments);        // hone bisect good.yaml bad.yaml
int lr_find(const std::vector<std::string>& arguments);       // hone lr-find run.yaml
int log_run(const std::vector<std::string>& arguments);       // hone log RUN --to wandb
int report_runs(const std::vector<std::string>& arguments);   // hone report RUN...
int compare_runs(const std::vector<std::string>& arguments);  // hone compare RUN RUN
int launch(const std::vector<std::string>& arguments);        // hone launch --nproc N -- COMMAND
int push(const std::vector<std::string>& arguments);          // hone push RUN
int probe_hardware();                                         // hone probe-hardware: the doctor's child
int gpu_check(const std::vector<std::string>& arguments);     // hone gpu-check
int gpu_check_stage();                                        // hone gpu-check-stage: its child
int explain(const std::vector<std::string>& arguments);       // hone explain REPORT|FOLDER
std::string env_text();                                       // what hone env prints, with newlines
int env();                                                    // hone env
int bug_report(const std::vector<std::string>& arguments);    // hone bug-report [OUTPUT_DIR]

}  // namespace hone::commands
