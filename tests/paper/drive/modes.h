// What paper_drive can do; each prints JSON lines and returns the exit code.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace hone::paper {

// `train [--names STEP] METHOD OPTIONS...`: a run of hone's on cuda:0, from its command line. A line when it is open, one a step, one at
// the end. --names: the kernels of that step by name.
int train_on_card(std::vector<std::string> words, at::Device card);

// `decode MODEL BATCH [--prompt TOKENS] [--tokens FEW,MORE] [--names]`: what a decoded token costs while BATCH sequences decode
// together: the difference between two generations of FEW and of MORE tokens, over their difference.
int decode_on_card(const std::vector<std::string>& words, at::Device card);

// `capture LIBRARY MODEL BATCH`: a step of BATCH sequences and their logits, captured by paper_captures. The line says why it cannot be.
int capture_on_card(const std::vector<std::string>& words, at::Device card);

// `steps MODEL BATCH`: whether steps of an engine that follow one another call the same operators with tensors of the same shapes at the
// same addresses of the card, and start as many kernels in the same order. The line says where two of them first differ.
int steps_on_card(const std::vector<std::string>& words, at::Device card);

// `host MODEL BATCH`: microseconds of a processor for a step of an engine while BATCH sequences decode, with what its events cost
// (step_us). In every other step observers divide its time by the clock: operators_us are libtorch's operators with the observers' own
// time, and host_us the rest, which is hone's own code and the starts of its kernels. The least of some steps, and the median.
int host_on_card(const std::vector<std::string>& words, at::Device card);

// `graphs LIBRARY MODEL`: tests of ops::StepGraphs with two cards, HONE_STEP_GRAPHS=on and the library that records.
int test_graphs(const std::vector<std::string>& words, at::Device card);

// `parts LIBRARY`: tests of the paper GPU itself (parts.cpp), which print `ok NAME` or `not ok NAME`.
int test_parts(const std::vector<std::string>& words);

}  // namespace hone::paper
