// PAPER_REPORT=FILE: when the process ends, its counts as a JSON line at the end of that file. For programs that know nothing of
// the paper GPU; the children of a process write a line each.
#include <cstdio>
#include <cstdlib>

#include "counts.h"

namespace {

struct Report {
  ~Report() {
    const char* const path = std::getenv("PAPER_REPORT");
    if (path == nullptr) return;
    PaperCounts all;
    paper_counts(&all);
    if (all.launches == 0 && all.allocations == 0) return;  // nothing of the card was asked for
    std::FILE* const file = std::fopen(path, "a");
    if (file == nullptr) return;
    const auto number = [](std::int64_t value) { return static_cast<long long>(value); };
    std::fprintf(file,
                 "{\"launches\": %lld, \"library_calls\": %lld, \"waits\": %lld, \"to_device\": %lld, "
                 "\"to_host\": %lld, \"pageable\": %lld, \"allocations\": %lld, \"peak\": %lld}\n",
                 number(all.launches), number(all.library_calls), number(all.waits), number(all.to_device),
                 number(all.to_host), number(all.pageable), number(all.allocations), number(all.peak));
    std::fclose(file);
  }
};
const Report kReport;

}  // namespace
