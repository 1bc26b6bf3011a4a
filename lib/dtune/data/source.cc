#include "dtune/data/source.h"

#include <memory>
#include <new>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/data/cifar.h"
#include "dtune/data/folder.h"
#include "dtune/data/idx.h"
#include "dtune/data/npz.h"
#include "dtune/data/source_error.h"
#include "dtune/data/synthetic.h"
#include "dtune/study/data_shape.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFashionMnist = "/usr/share/datasets/fashion-mnist";

std::vector<std::string> fashion_names() {
  return {"t-shirt", "trouser", "pullover", "dress", "coat",
          "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};
}

std::vector<std::string> digit_names() {
  return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

// What to do where nothing is found at the source's path.
std::string remedy(const DataSpec& spec) {
  switch (spec.kind) {
    case DataKind::fashion_mnist:
      return spec.path.empty()
                 ? "install it: apt-get install dataset-fashion-mnist"
                 : "data.path names the folder of four IDX files; without it "
                   "the package dataset-fashion-mnist is used";
    case DataKind::mnist:
      return "data.path names the folder of four IDX files, "
             "train-images-idx3-ubyte.gz and so on";
    case DataKind::cifar10:
      return "data.path names the folder of data_batch_1.bin and so on: the "
             "binary version from https://www.cs.toronto.edu/~kriz/cifar.html";
    case DataKind::cifar100:
      return "data.path names the folder of train.bin and test.bin: the binary "
             "version from https://www.cs.toronto.edu/~kriz/cifar.html";
    case DataKind::npz:
      return "data.path names an .npz file with train_images and train_labels";
    case DataKind::folder:
      return "data.path names a folder with one folder of images per class";
    case DataKind::synthetic:
      break;
  }
  return "check data.path";
}

fs::path existing_source(const DataSpec& spec) {
  fs::path path = source_path(spec);
  if (path.empty()) {
    throw Error(ErrorKind::config,
                fmt::format("data.path: is missing for kind {} ({})",
                            to_string(spec.kind), remedy(spec)));
  }
  const bool wants_file = spec.kind == DataKind::npz;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    fail_data(path, fmt::format("does not exist ({})", remedy(spec)));
  }
  if (wants_file ? fs::is_directory(status) : !fs::is_directory(status)) {
    fail_data(path, fmt::format("is {} folder ({})", wants_file ? "a" : "not a",
                                remedy(spec)));
  }
  return path;
}

SourceData open_kind(const DataSpec& spec) {
  if (spec.kind == DataKind::synthetic) return make_synthetic(spec);
  const fs::path path = existing_source(spec);
  switch (spec.kind) {
    case DataKind::fashion_mnist:
      return read_idx_folder(path, fashion_names());
    case DataKind::mnist:
      return read_idx_folder(path, digit_names());
    case DataKind::cifar10:
      return read_cifar_folder(path, CifarKind::cifar10);
    case DataKind::cifar100:
      return read_cifar_folder(path, CifarKind::cifar100);
    case DataKind::npz:
      return open_npz(std::make_shared<ZipArchive>(path));
    default:
      return open_image_folder(path, spec);
  }
}

// Runs `work`; what the standard library throws becomes an Error.
template <typename Work>
auto reading(const DataSpec& spec, Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    throw Error(
        ErrorKind::temporary,
        fmt::format("{}: not enough memory to read the data (stop other "
                    "programs, or use a smaller image size)",
                    source_path(spec).string()));
  } catch (const fs::filesystem_error& error) {
    fail_data(error.path1(),
              fmt::format("cannot be read: {}", error.code().message()));
  }
}

}  // namespace

fs::path source_path(const DataSpec& spec) {
  if (!spec.path.empty() || spec.kind != DataKind::fashion_mnist) {
    return spec.path;
  }
  return kFashionMnist;
}

SourceData open_source(const DataSpec& spec) {
  return reading(spec, [&] { return open_kind(spec); });
}

std::vector<fs::path> source_files(const DataSpec& spec) {
  if (spec.kind == DataKind::synthetic) return {};
  const fs::path path = existing_source(spec);
  switch (spec.kind) {
    case DataKind::fashion_mnist:
    case DataKind::mnist:
      return idx_files(path);
    case DataKind::cifar10:
      return cifar_files(path, CifarKind::cifar10);
    case DataKind::cifar100:
      return cifar_files(path, CifarKind::cifar100);
    case DataKind::folder:
      return image_folder_files(path);
    default:
      return {path};
  }
}

}  // namespace dtune
