#include "server/run/parts.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

#include "runtime/manifold/fixed_rank.h"
#include "server/run/model_keys.h"
#include "server/run/names.h"

namespace gradstream {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    const size_t first = text.find_first_not_of(' ', begin);
    const size_t last = text.find_last_not_of(' ', end - 1);
    words.push_back(first < end ? text.substr(first, last - first + 1) : "");
    begin = end + 1;
  }
  return words;
}

// "16x2"; {0, 0} if it is no such text.
Shape parse_shape(const std::string& text) {
  Shape shape;
  const char* const end = text.data() + text.size();
  const auto rows = std::from_chars(text.data(), end, shape.rows);
  if (rows.ec != std::errc() || rows.ptr == end || *rows.ptr != 'x') {
    return {};
  }
  const auto cols = std::from_chars(rows.ptr + 1, end, shape.cols);
  return cols.ec == std::errc() && cols.ptr == end ? shape : Shape{};
}

// One part from its text; a sentence where it is none.
Objection read_part(const std::string& text, Part* out) {
  std::vector<std::string> words = split(text, ' ');
  std::erase(words, "");
  if (words.size() < 2 || words.size() > 4) {
    return "parts: \"" + text +
           "\" should be a manifold and its shape, and perhaps its retraction and transport, such "
           "as \"stiefel 16x2\" or \"stiefel 16x2 qr projection\"";
  }
  const auto id = parse_name(words[0], ManifoldId::kNone);
  if (id == ManifoldId::kNone || id == ManifoldId::kProduct) {
    return "parts: \"" + words[0] + "\" is no manifold that a product can have";
  }
  constexpr auto kNoRetraction = static_cast<RetractionKind>(255);
  constexpr auto kNoTransport = static_cast<TransportKind>(255);
  const auto retraction = words.size() > 2 ? parse_name(words[2], kNoRetraction) : RetractionKind::kDefault;
  const auto transport = words.size() > 3 ? parse_name(words[3], kNoTransport) : TransportKind::kDefault;
  out->ops = find_manifold(all_manifolds(), id, retraction, transport);
  if (out->ops == nullptr) {
    return "parts: \"" + text + "\": manifold " + words[0] + " has " + variants_of(id);
  }
  out->shape = parse_shape(words[1]);
  if (out->shape.size() == 0 || out->ops->check_shape(out->shape) != Status::kOk) {
    return "parts: manifold " + words[0] + " has no points of shape \"" + words[1] + "\" (ROWSxCOLS)";
  }
  return {};
}

// The shape of a point that has parts.
Shape shape_of(const RunParameters& p, const Parts& parts) {
  return p.model->manifold == ManifoldId::kFixedRank
             ? fixed_rank_shape(parts)
             : Shape{static_cast<uint32_t>(std::min<uint64_t>(size_of(parts), UINT32_MAX)), 1, &parts};
}

}  // namespace

Objection read_parts(const std::string& text, Parts* out) {
  for (const std::string& one : split(text, ',')) {
    if (out->count == kPartCountMax) {
      return "parts: at most " + std::to_string(kPartCountMax);
    }
    if (Objection objection = read_part(one, &out->part[out->count])) {
      return objection;
    }
    ++out->count;
  }
  return {};
}

Objection read_matrix(const RunParameters& p, Parts* out) {
  const Shape matrix = parse_shape(p.model->matrix);
  if (matrix.size() == 0 || matrix.rows > kDimensionMax || matrix.cols > kDimensionMax) {
    return "matrix, manifold: manifold fixed_rank needs the shape of its matrices (ROWSxCOLS, each from 1 to " +
           std::to_string(kDimensionMax) + "), such as matrix = \"20x14\"";
  }
  const uint32_t least = std::min({matrix.rows, matrix.cols, kFixedRankMax});
  if (p.model->rank == 0 || p.model->rank > least) {
    return "rank, matrix: matrices of shape " + p.model->matrix + " have ranks from 1 to " + std::to_string(least) +
           " here; set rank";
  }
  *out = fixed_rank_parts(matrix.rows, matrix.cols, p.model->rank);
  return fixed_rank_shape(*out).rows <= kDimensionMax
             ? ""
             : "matrix, rank: its rows, columns and rank together are above " + std::to_string(kDimensionMax);
}

uint64_t size_of(const Parts& parts) {
  uint64_t size = 0;
  for (const Part& part : parts.list()) {
    size += part.shape.size();
  }
  return size;
}

void set_parts(RunParameters* parameters) {
  RunParameters& p = *parameters;
  const bool has_old_shape = p.model->part_list != nullptr && p.model->shape.size() == size_of(*p.model->part_list);
  const auto parts = std::make_shared<Parts>();
  const bool has_parts = p.model->manifold == ManifoldId::kProduct     ? !read_parts(p.model->parts, parts.get())
                         : p.model->manifold == ManifoldId::kFixedRank ? !read_matrix(p, parts.get())
                                                                       : false;
  if (has_old_shape || (p.model->shape.rows == 0 && p.model->shape.cols == 0)) {
    p.model->shape = has_parts ? shape_of(p, *parts) : Shape{};
  }
  p.model->part_list = has_parts ? parts : nullptr;
  p.model->shape.parts = p.model->part_list.get();
}

}  // namespace gradstream
