#include "dtune/report/output_folder.h"

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {

void make_output_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return;
  throw Error(ErrorKind::data,
              fmt::format("{}: cannot be created: {} (choose another folder)",
                          folder.string(), error.message()));
}

}  // namespace dtune
