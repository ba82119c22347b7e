// gtest's main, and that of the processes that processes_test.cpp starts.
#include <gtest/gtest.h>

#include <string_view>

#include "parallel/rank_program.h"

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "rank") return hone::parallel::rank_program::run(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
