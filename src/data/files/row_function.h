// A function of the user's Python that makes a row of each row, in a process of its own interpreter:
//
//   def row(row: dict) -> dict | None | list[dict]     a row, no row, several
//
// A row is what the file holds (after `columns` of a data set), a dict of what JSON has: text, numbers, booleans, None, lists, dicts. What
// comes back may also hold tuples and what has tolist() (numpy, torch). Rows are handed over one by one and in order, so that a function
// that counts or draws gives the same in every run. The process has its own group, /dev/null as stdin, and dies with hone
// (python/worker_process.h); a file's folder and the working folder are on sys.path.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/row_mapping.h"

namespace hone::data {

class RowFunction {
 public:
  // Starts the interpreter and loads the function. UserError: no such interpreter, file or name (nearest names), an import that raises
  // (with its traceback) or does not end, a function that does not take one row.
  explicit RowFunction(const base::RowFunctionPlan& plan);
  ~RowFunction();
  RowFunction(const RowFunction&) = delete;
  RowFunction& operator=(const RowFunction&) = delete;

  // Returns what each of `rows` becomes, none or several. where(i) names a row in messages. UserError of the
  // first row that raises (with the traceback), takes longer than plan.seconds (with the line where it
  // stands), ends the process (with its last output), or becomes something else than rows.
  std::vector<std::vector<base::Json>> call(const std::vector<base::Json>& rows,
                                            const std::function<std::string(std::size_t)>& where);

 private:
  struct Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace hone::data
