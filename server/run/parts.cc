#include "server/run/parts.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <vector>

#include "runtime/manifold/fixed_rank.h"
#include "server/run/names.h"
#include "server/run/run_core.h"

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

// The whole number that is all of the text; 0 if it is none.
uint32_t parse_rank(const std::string& text) {
  uint32_t rank = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, rank);
  return error == std::errc() && at == end ? rank : 0;
}

// Why there is no such point of fixed rank, after the keys; "" where there is one. Fills its factors.
std::string make_factors(const std::string& shape_text, uint32_t rank, Parts* out) {
  const Shape matrix = parse_shape(shape_text);
  if (matrix.size() == 0 || matrix.rows > kDimensionMax || matrix.cols > kDimensionMax) {
    return "manifold fixed_rank has no points of shape \"" + shape_text + "\" (ROWSxCOLS, each from 1 to " +
           std::to_string(kDimensionMax) + ")";
  }
  const uint32_t least = std::min({matrix.rows, matrix.cols, kFixedRankMax});
  if (rank == 0 || rank > least) {
    return "matrices of shape " + shape_text + " have ranks from 1 to " + std::to_string(least) + " here; set rank";
  }
  *out = fixed_rank_parts(matrix.rows, matrix.cols, rank);
  const uint32_t rows = fixed_rank_shape(*out).rows;
  return rows <= kDimensionMax ? ""
                               : "its rows, columns and rank together are " + std::to_string(rows) + ", at most " +
                                     std::to_string(kDimensionMax);
}

// One part from its text; a sentence where it is none. factors: those of the part, where it has any.
Objection read_part(const std::string& text, Part* out, Parts* factors) {
  std::vector<std::string> words = split(text, ' ');
  std::erase(words, "");
  const bool has_rank = !words.empty() && words[0] == name_of(ManifoldId::kFixedRank);
  uint32_t rank = 0;
  if (words.size() > 2 && words[2].find_first_not_of("0123456789") == std::string::npos) {
    if (!has_rank) {
      return "parts: \"" + text + "\": only fixed_rank has a rank; leave " + words[2] + " out";
    }
    rank = parse_rank(words[2]);
    words.erase(words.begin() + 2);
  } else if (has_rank && words.size() >= 2) {
    return "parts: \"" + text + "\" needs the rank after its shape, such as \"fixed_rank 64x16 4\"";
  }
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
  if (has_rank) {
    const std::string fault = make_factors(words[1], rank, factors);
    out->shape = fault.empty() ? fixed_rank_shape(*factors) : Shape{};
    return fault.empty() ? "" : "parts: \"" + text + "\": " + fault;
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

Objection read_parts(const std::string& text, PartList* out) {
  Parts& parts = out->parts;
  for (const std::string& one : split(text, ',')) {
    if (parts.count == kPartCountMax) {
      return "parts: at most " + std::to_string(kPartCountMax);
    }
    if (Objection objection = read_part(one, &parts.part[parts.count], &out->factors[parts.count])) {
      return objection;
    }
    ++parts.count;
  }
  return {};
}

std::string text_of(const Part& part) {
  const Shape shape = part.shape;
  const bool has_factors = shape.parts != nullptr && part.ops->id == ManifoldId::kFixedRank;
  const uint32_t rows = has_factors ? shape.parts->part[0].shape.rows : shape.rows;
  const uint32_t cols = has_factors ? shape.parts->part[1].shape.rows : shape.cols;
  return std::string(part.ops->name) + " " + std::to_string(rows) + "x" + std::to_string(cols) +
         (has_factors ? " " + std::to_string(shape.cols) : "");
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
  const auto list = std::make_shared<PartList>();
  const bool has_parts = p.model->manifold == ManifoldId::kProduct     ? !read_parts(p.model->parts, list.get())
                         : p.model->manifold == ManifoldId::kFixedRank ? !read_matrix(p, &list->parts)
                                                                       : false;
  if (has_old_shape || (p.model->shape.rows == 0 && p.model->shape.cols == 0)) {
    p.model->shape = has_parts ? shape_of(p, list->parts) : Shape{};
  }
  p.model->part_list = has_parts ? std::shared_ptr<const Parts>(list, &list->parts) : nullptr;
  p.model->shape.parts = p.model->part_list.get();
}

}  // namespace gradstream
