// Staging: where files and folders are written before they are renamed, and how a set of files at the top of
// a folder is replaced atomically. FileWriter and StagedFolder (base/files/file.h) stage through these names.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "base/files/file.h"

namespace hone::base {

// "out/.hone-partial.x" for "out/x": hidden, and not a name that a user would choose. A name that is too long
// for a file system is cut and ends in a hash.
fs::path staging_path(const fs::path& final_path);

// "out/x" for "out/.hone-partial.x"; nullopt for every other name, and for a name that was cut.
std::optional<fs::path> final_of_staging(const fs::path& path);

// The file that a write to `path` changes: symbolic links of its last part are followed, also to a target
// that does not exist yet. UserError for circular links.
fs::path resolve_links(const fs::path& path);

// create_directories, then fsync of the parent of every folder that was created.
void create_folders(const fs::path& folder);

// Removes a folder atomically: it is moved into its staging folder first, and what a killed process leaves
// there is removed by StagedFolder::recover(). Of a symbolic link only the link is removed. Does nothing when
// `folder` does not exist. UserError while another process stages it.
void remove_whole_folder(const fs::path& folder);

// Cleans up `<final>.partial` and `<final>.hone-old`, the staging names of earlier versions of hone, as
// StagedFolder::recover() does with the current one. Only for a `final_path` that hone itself named
// (checkpoint-N): beside other paths such a name may be the user's.
bool recover_former_staging(const fs::path& final_path);

// Replaces the set of result files at the top of a run's folder as one. publish():
//   1. `write` puts the whole set into folder/.hone-result, a StagedFolder: synced and complete. From here on
//      the new set is valid; if the process is killed, the next one finishes the steps below.
//   2. remove `last` from the top, fsync the folder
//   3. rename every file of the set but `last` to the top, fsync both folders
//   4. rename `last`, fsync both folders
//   5. remove folder/.hone-result, fsync the folder
// What the set's last file is called stays in it, so that the calls below finish it whatever `last` they are given: the
// name in sets of earlier versions of hone. A replaced file's mode is kept; a link at the top is replaced, not its target. Other programs see the old
// set, a set without `last`, or the new set. Readers in hone call finish_publishing_before_reading() first.
void publish(const fs::path& folder, const std::function<void(const fs::path&)>& write,
             std::string_view last);

// Finishes steps 2 to 5 of an interrupted publish(), or removes one that did not finish step 1. Only for the
// process that writes there, at a run's start.
void finish_publishing(const fs::path& folder, std::string_view last);

// The same for a reader, when a publish() was interrupted. If another process holds the folder (FolderLock)
// it waits half a second, then throws a UserError. Restores a `folder` that a killed StagedFolder had moved.
void finish_publishing_before_reading(const fs::path& folder, std::string_view last);

}  // namespace hone::base
