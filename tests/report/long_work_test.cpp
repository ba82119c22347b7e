// What merging, exporting and converting say while they take long.
#include "report/long_work.h"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "base/step_progress.h"

namespace hone::report {
namespace long_work_test {

TEST(LongWork, SaysHowFarItIsAndWhatIsLeft) {
  base::end_parts();
  EXPECT_EQ(work_progress_text(5, 4), "");
  base::begin_part("writing", "tensors", 1200);
  EXPECT_EQ(work_progress_text(5, 4), "writing 0 of 1,200 tensors  5 s");
  base::advance_part(10);
  EXPECT_EQ(work_progress_text(5, 4), "writing 10 of 1,200 tensors  5 s") << "too early to say what is left";
  base::advance_part(290);
  EXPECT_EQ(work_progress_text(45, 40), "writing 300 of 1,200 tensors  45 s, about 2 min 00 s left");
  base::advance_part(900);
  EXPECT_EQ(work_progress_text(160, 160), "writing 1,200 of 1,200 tensors  2 min 40 s");
  base::begin_part("tokenizing", "rows", 0);
  base::advance_part(4096);
  EXPECT_EQ(work_progress_text(5, 4), "tokenizing 4,096 rows  5 s");
  base::end_parts();
}

TEST(LongWork, IsOneLineThatGoesAwayAndNoneForShortWork) {
  std::ostringstream log, terminal, quick;
  {
    const LongWork in_log(log, {}), in_terminal(terminal, {.interactive = true, .columns = 60});
    base::begin_part("writing", "tensors", 8);
    base::advance_part(2);
    std::this_thread::sleep_for(std::chrono::milliseconds(2300));
  }
  {
    const LongWork short_work(quick, {.interactive = true, .columns = 60});
  }
  EXPECT_EQ(log.str(), "") << "a line every 30 s";
  EXPECT_EQ(terminal.str().find("\r\x1b[Kwriting 2 of 8 tensors  2 s, about "), 0U) << terminal.str();
  EXPECT_TRUE(terminal.str().ends_with("\r\x1b[K")) << terminal.str();
  EXPECT_EQ(terminal.str().find('\n'), std::string::npos);
  EXPECT_EQ(quick.str(), "");
}

}  // namespace long_work_test
}  // namespace hone::report
