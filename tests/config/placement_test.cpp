#include "config/placement.h"

#include "config/commands/tool_plans.h"
#include "config/helpers.h"

namespace hone::config {
namespace placement_test {

class Placement : public ConfigTest {
 protected:
  std::string error_with(const std::vector<std::string>& more) const { return run_error(more); }
};

TEST_F(Placement, ADeviceIsOneOfFourForms) {
  EXPECT_EQ(run().device, base::kDefaultDevice);
  for (const char* device : {"cpu", "cuda", "cuda:0", "cuda:7", "cuda:15", "auto"})
    EXPECT_EQ(run({"--device", device}).device, device);
  EXPECT_EQ(run_yaml("device: cuda:1\n").device, "cuda:1");
}

TEST_F(Placement, AnotherNameIsAMistakeWithTheNearest) {
  EXPECT_EQ(error_with({"--device", "cudda"}),
            "[--device] expected a value of device\n"
            "  found:  'cudda'. Did you mean 'cuda'?\n"
            "  do:     choose cpu, cuda, cuda:N, auto");
  EXPECT_NE(error_with({"--device", "cuda:N"}).find("N stands for a whole number"), std::string::npos);
  // 64-bit numbers of cards, leading zeros, other devices of torch, and the tests' own
  for (const char* device :
       {"cuda:", "cuda:-1", "cuda:01", "cuda:00", "cuda:9999999", "cuda0", "gpu", "mps", "standin", "CUDA"})
    EXPECT_NE(error_with({"--device", device}).find("expected a value of device"), std::string::npos)
        << device;
}

TEST_F(Placement, UseCpuAndItsFormerNameSayCpu) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"--use_cpu"},
                                                {"--no_cuda"},
                                                {"--use_cpu", "--device", "auto"},
                                                {"--no_cuda", "--device", "cpu"}})
    EXPECT_EQ(run(words).device, "cpu") << words[0];
  EXPECT_EQ(run({"--device", "cuda", "--use_cpu", "false"}).device, "cuda");
  EXPECT_EQ(error_with({"--use_cpu", "--device", "cuda"}),
            "[--device] expected device or use_cpu, which is device: cpu\n"
            "  found:  cuda, and use_cpu: true at --use_cpu\n"
            "  do:     remove one of the two");
}

TEST_F(Placement, WhatOnlyTheCpuHasIsToldBeforeAModelIsRead) {
  const std::vector<std::string> words = arguments({"--device", "cuda:1"});
  EXPECT_EQ(error_of([&] { parse_run(Method::kSft, words, 2); }),
            "[--device] expected device: cpu for this run\n"
            "  found:  cuda:1 with 2 processes\n"
            "  likely: the processes of a run add their gradients up on the CPU\n"
            "  do:     write device: cpu, or start one process");
  EXPECT_EQ(parse_run(Method::kSft, words, 1).device, "cuda:1");
  const std::vector<std::string> full = {"--device",         "cuda",      "--use_peft", "false",
                                         "--offload_folder", path("disk")};
  EXPECT_NE(error_with(full).find("an optimizer's state in a file is stepped by the CPU"), std::string::npos);
  EXPECT_EQ(run({"--device", "cuda", "--offload_folder", path("disk")}).device, "cuda")
      << "an adapter's is not used";
}

TEST_F(Placement, AutoIsLeftToTheCommand) {
  const Plan two = parse_run(Method::kSft, arguments({"--device", "auto"}), 2);
  EXPECT_EQ(two.device, "auto");
  ASSERT_TRUE(only_on_cpu(two));
  EXPECT_EQ(only_on_cpu(two)->found, "2 processes");
  EXPECT_FALSE(only_on_cpu(run({"--device", "auto"})));
}

TEST_F(Placement, CommandsThatRunAModelHaveIt) {
  const std::string model = path("model"), adapter = path("adapter");
  EXPECT_EQ(parse_generate({"--model_name_or_path", model, "--prompt", "x", "--device", "cuda:2"}).device,
            "cuda:2");
  EXPECT_EQ(parse_chat({model, "--device", "auto"}).device, "auto");
  const std::vector<std::string> merge = {"--model_name_or_path",
                                          model,
                                          "--adapter_name_or_path",
                                          adapter,
                                          "--output",
                                          path("merged"),
                                          "--device",
                                          "cuda"};
  EXPECT_EQ(parse_merge(merge).compare.device, "cuda");
  EXPECT_EQ(parse_export({"--model_name_or_path", model, "--output", path("a.gguf"), "--device", "cuda"})
                .compare.device,
            "cuda");
  EXPECT_EQ(parse_generate({"--model_name_or_path", model, "--prompt", "x"}).device, base::kDefaultDevice);
  EXPECT_NE(error_of([&] { parse_chat({model, "--device", "cud"}); }).find("Did you mean 'cuda'?"),
            std::string::npos);
}

TEST_F(Placement, ACommandThatComparesNothingSaysThatItHasNoEffect) {
  const auto none = parse_export({"--model_name_or_path", path("model"), "--output", path("a.gguf"),
                                  "--device", "cuda", "--compare", "0"});
  ASSERT_EQ(none.notes.size(), 1U);
  EXPECT_EQ(none.notes[0], "device: has no effect without a comparison");
}

}  // namespace placement_test
}  // namespace hone::config
