// CIFAR-10 and CIFAR-100, binary version (Krizhevsky 2009,
// https://www.cs.toronto.edu/~kriz/cifar.html): records of one label byte (two
// in CIFAR-100: coarse, fine) and 3072 pixels, planes red, green, blue, 32x32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "dtune/data/prepared.h"

namespace dtune {

enum class CifarKind { cifar10, cifar100 };

// Appends the records of one file to `out` as NHWC with fine labels. Throws
// Error(data): empty, not a whole number of records, a label out of range.
void parse_cifar(std::span<const uint8_t> bytes, CifarKind kind,
                 const std::filesystem::path& where, ImageSet& out);

// `folder` holds the .bin files, itself or in the folder that the archive
// makes (cifar-10-batches-bin, cifar-100-binary).
SourceData read_cifar_folder(const std::filesystem::path& folder,
                             CifarKind kind);

// The files that hold the images; throws if one is missing.
std::vector<std::filesystem::path> cifar_files(
    const std::filesystem::path& folder, CifarKind kind);

}  // namespace dtune
