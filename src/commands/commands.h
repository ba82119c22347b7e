// The commands that need tensors, one file each. main.cpp has checked the words before it comes here.
#pragma once

#include <string>
#include <vector>

namespace hone::commands {

// argv as the process got it. Returns the exit code: 0, 2 (UserError, told on stderr), 70 (our bug), 130
// (Ctrl-C).
int run(int argc, char** argv);

// Prints one line each to stderr: what was set and has no effect.
void say_notes(const std::vector<std::string>& notes);

int sft(const std::vector<std::string>& arguments);     // hone sft --config run.yaml [--option value]
int grpo(const std::vector<std::string>& arguments);    // hone grpo --config run.yaml [--option value]
int rloo(const std::vector<std::string>& arguments);    // hone rloo --config run.yaml [--option value]
int dpo(const std::vector<std::string>& arguments);     // hone dpo --config run.yaml [--option value]
int reward(const std::vector<std::string>& arguments);  // hone reward --config run.yaml [--option value]
int kto(const std::vector<std::string>& arguments);     // hone kto --config run.yaml [--option value]
int online_dpo(
    const std::vector<std::string>& arguments);  // hone online-dpo --config run.yaml [--option value]
int generate(const std::vector<std::string>& arguments);  // hone generate --model_name_or_path M --prompt P
int chat(const std::vector<std::string>& arguments);      // hone chat M
int convert(const std::vector<std::string>& arguments);   // hone convert --input model.gguf --output folder
int merge(
    const std::vector<std::string>& arguments);  // hone merge --model_name_or_path M --adapter_name_or_path A
int export_model(const std::vector<std::string>& arguments);  // hone export --model_name_or_path M --output F
int reward_test(
    const std::vector<std::string>& arguments);          // hone reward-test --reward_funcs R --dataset_name D
int doctor(const std::vector<std::string>& arguments);   // hone doctor run.yaml
int faults(const std::vector<std::string>& arguments);   // hone faults [CODE]
int bisect(const std::vector<std::string>& arguments);   // hone bisect good.yaml bad.yaml
int lr_find(const std::vector<std::string>& arguments);  // hone lr-find run.yaml
int probe_hardware();                                    // hone probe-hardware: the doctor's child
int explain(const std::vector<std::string>& arguments);  // hone explain REPORT|FOLDER
int env();                                               // hone env

}  // namespace hone::commands
