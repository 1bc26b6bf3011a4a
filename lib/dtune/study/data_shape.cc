#include "dtune/study/data_shape.h"

namespace dtune {

DataShape known_data_shape(const DataSpec& spec) {
  switch (spec.kind) {
    case DataKind::fashion_mnist:
    case DataKind::mnist:
      return {{.channels = 1, .height = 28, .width = 28}, 10};
    case DataKind::cifar10:
      return {{.channels = 3, .height = 32, .width = 32}, 10};
    case DataKind::cifar100:
      return {{.channels = 3, .height = 32, .width = 32}, 100};
    case DataKind::synthetic: {
      const int height = spec.height > 0 ? spec.height : kSyntheticSize;
      const int width = spec.width > 0 ? spec.width : kSyntheticSize;
      return {{.channels = spec.channels, .height = height, .width = width},
              spec.classes};
    }
    case DataKind::folder:
      if (spec.height > 0 && spec.width > 0) {
        return {{.channels = spec.gray ? 1 : 3,
                 .height = spec.height,
                 .width = spec.width},
                0};
      }
      return {};
    case DataKind::npz:
      return {};
  }
  return {};
}

}  // namespace dtune
