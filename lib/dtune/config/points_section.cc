#include "dtune/config/points_section.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "dtune/base/file.h"
#include "dtune/base/suggest.h"
#include "dtune/space/axis.h"
#include "dtune/space/point_table.h"

namespace dtune {
namespace {

// 1 and 1.0 are the same value of a real parameter.
Value value_for(const Parameter& parameter, const YamlNode& node) {
  Value value = scalar_value(node);
  const auto* whole = std::get_if<int64_t>(&value);
  if (parameter.kind == ParameterKind::real && whole != nullptr) {
    return static_cast<double>(*whole);
  }
  const auto* real = std::get_if<double>(&value);
  if (parameter.kind == ParameterKind::integer && real != nullptr &&
      *real == static_cast<double>(static_cast<int64_t>(*real))) {
    return static_cast<int64_t>(*real);
  }
  return value;
}

class PointReader {
 public:
  PointReader(const SearchSpace& space, Diagnostics& diagnostics)
      : space_(space), diagnostics_(diagnostics) {}

  std::optional<Point> read(const YamlNode& item) {
    if (!item.is_map()) {
      diagnostics_.add(item.mark,
                       fmt::format("a point must be a section such as {{lr: "
                                   "0.1, l2: 1e-4}}, but is {}",
                                   describe_node(item)));
      return std::nullopt;
    }
    Point given;
    bool good = true;
    for (const YamlNode& entry : item.items) {
      good = read_value(entry, given) && good;
    }
    return good ? complete(item, given) : std::nullopt;
  }

 private:
  bool read_value(const YamlNode& entry, Point& given) {
    const auto index = space_.find(entry.key);
    if (!index) {
      std::vector<std::string> names;
      for (const Parameter& p : space_.parameters()) names.push_back(p.name);
      diagnostics_.add(entry.key_mark,
                       fmt::format("'{}' is not a parameter of the space{}",
                                   entry.key, did_you_mean(entry.key, names)));
      return false;
    }
    const Parameter& parameter = space_.parameters()[*index];
    const Value value =
        entry.is_scalar() ? value_for(parameter, entry) : Value(std::string());
    const std::string reason =
        entry.is_scalar() ? reason_invalid(parameter, value)
                          : "must be a value, but is " + describe_node(entry);
    if (!reason.empty()) {
      diagnostics_.add(entry.mark, fmt::format("'{}': {}", entry.key, reason));
      return false;
    }
    given[entry.key] = value;
    return true;
  }

  // With what `given` leaves out, as the samplers would write it.
  std::optional<Point> complete(const YamlNode& item, const Point& given) {
    std::vector<double> unit(space_.dimensions(), 0.5);
    for (size_t i = 0; i < unit.size(); ++i) {
      const Parameter& p = space_.parameters()[i];
      const auto found = given.find(p.name);
      if (found != given.end()) {
        unit[i] = encode_value(p, found->second);
      } else if (p.prior) {
        unit[i] = encode_value(p, *p.prior);
      }
    }
    Point point = space_.decode(unit);
    for (const auto& [name, value] : given) {
      if (!point.contains(name)) {
        const Parameter& p = space_.parameters()[*space_.find(name)];
        diagnostics_.add(item.find(name)->key_mark,
                         fmt::format("'{}' has a value, but '{}' does not hold",
                                     name, p.when));
        return std::nullopt;
      }
    }
    const std::string reason = space_.reason_invalid(point);
    if (reason.empty()) return point;
    diagnostics_.add(item.mark, reason);
    return std::nullopt;
  }

  const SearchSpace& space_;
  Diagnostics& diagnostics_;
};

// A point may be one of the space and yet train nothing.
void check_recipe_of(const Document& document, const SearchSpace& space,
                     const Point& point, const Mark& mark,
                     Diagnostics& diagnostics) {
  try {
    read_point(document, space, point);
  } catch (const RecipeError& error) {
    diagnostics.add(mark, error.diagnostics().front().message);
  }
}

// `points: tried.csv`: each row that is a point of the space.
std::vector<Point> read_table(const Document& document,
                              const SearchSpace& space, const YamlNode& file,
                              Diagnostics& diagnostics) {
  constexpr uint64_t kMostBytes = uint64_t{16} << 20;
  std::vector<Point> points;
  try {
    const std::filesystem::path path = document.directory / file.text;
    for (PointRow& row :
         read_point_table(read_file(path, kMostBytes), file.text, space)) {
      if (row.problem.empty()) {
        Point point = space.decode(space.encode(row.point));
        const bool known =
            std::find(points.begin(), points.end(), point) != points.end();
        if (!known) points.push_back(std::move(point));
      } else {
        diagnostics.add(file.mark, fmt::format("{}:{}:1: {}", file.text,
                                               row.line, row.problem));
      }
    }
  } catch (const Error& error) {
    diagnostics.add(file.mark, error.what());
  }
  return points;
}

}  // namespace

std::vector<Point> read_points(const Document& document, const Recipe& recipe,
                               Diagnostics& diagnostics) {
  std::vector<Point> points;
  const YamlNode* list = document.tree.find("points");
  if (list == nullptr || list->is_null()) return points;
  if (list->is_scalar() && list->text.ends_with(".csv")) {
    return read_table(document, recipe.space, *list, diagnostics);
  }
  if (!list->is_list()) {
    diagnostics.add(list->mark,
                    fmt::format("'points' must be a list such as [{{lr: 0.1}}] "
                                "or the name of a .csv file, but is {}",
                                describe_node(*list)));
    return points;
  }
  PointReader reader(recipe.space, diagnostics);
  for (const YamlNode& item : list->items) {
    std::optional<Point> point = reader.read(item);
    if (!point) continue;
    if (std::find(points.begin(), points.end(), *point) != points.end()) {
      diagnostics.add(item.mark, "this point is listed twice (remove one)");
      continue;
    }
    check_recipe_of(document, recipe.space, *point, item.mark, diagnostics);
    points.push_back(*std::move(point));
  }
  return points;
}

void write_points(YamlNode& recipe, const std::vector<Point>& points) {
  if (points.empty()) return;
  YamlNode list = YamlNode::list();
  for (const Point& point : points) {
    YamlNode item = YamlNode::map();
    for (const auto& [name, value] : point) {
      item.entry(name).set_value(scalar_of(value));
    }
    list.items.push_back(std::move(item));
  }
  recipe.entry("points").set_value(list);
}

}  // namespace dtune
