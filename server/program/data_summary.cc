#include "server/program/data_summary.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Eigenvalues>

#include "firmware/float_shard.h"
#include "firmware/shard.h"
#include "firmware/shard_fault_posix.h"
#include "host/shown.h"
#include "runtime/base/status.h"

namespace gradstream {
namespace {

// Rows of the product that are doubles at a time. Reason: the table stays the largest thing in memory.
constexpr Eigen::Index kBlockSize = 256;

std::span<const double> entries_of(const Eigen::MatrixXd& matrix) {
  return {matrix.data(), static_cast<size_t>(matrix.size())};
}

}  // namespace

std::vector<double> largest_eigenvalues(std::span<const double> matrix, uint32_t count) {
  const auto size = static_cast<Eigen::Index>(std::lround(std::sqrt(static_cast<double>(matrix.size()))));
  GS_ASSERT(static_cast<size_t>(size * size) == matrix.size());
  const Eigen::MatrixXd moment = Eigen::Map<const Eigen::MatrixXd>(matrix.data(), size, size);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(moment, Eigen::EigenvaluesOnly);
  const Eigen::VectorXd& values = solver.eigenvalues();  // they rise
  std::vector<double> out;
  for (Eigen::Index i = values.size(); i > 0 && out.size() < count; --i) {
    out.push_back(values[i - 1] > 0 ? values[i - 1] : 0);  // below 0 is rounding, and so is -0
  }
  return out;
}

std::vector<ColumnSummary> summarise_columns(const SampleTable& table) {
  GS_ASSERT(table.dimension > 0);  // of every table that was read
  std::vector<ColumnSummary> columns(table.dimension);
  for (uint32_t column = 0; column < table.dimension; ++column) {
    columns[column].least = columns[column].greatest = table.values[column];
  }
  for (size_t i = 0; i < table.values.size(); ++i) {
    ColumnSummary& column = columns[i % table.dimension];
    column.least = std::min(column.least, table.values[i]);
    column.greatest = std::max(column.greatest, table.values[i]);
    column.mean += static_cast<double>(table.values[i]) / table.sample_count;
  }
  for (size_t i = 0; i < table.values.size(); ++i) {
    ColumnSummary& column = columns[i % table.dimension];
    const double distance = static_cast<double>(table.values[i]) - column.mean;
    column.deviation += distance * distance / table.sample_count;
  }
  for (ColumnSummary& column : columns) {
    column.deviation = column.is_constant() ? 0 : std::sqrt(column.deviation);
  }
  return columns;
}

Spectrum find_spectrum(const SampleTable& table, uint32_t column_count, uint32_t count) {
  const std::vector<ColumnSummary> columns = summarise_columns(table);
  // Of X with a sample a row, X'X and XX' have the same eigenvalues beside zeros: the smaller one is made.
  const bool is_by_column = column_count <= table.sample_count;
  const Eigen::Index size = is_by_column ? column_count : table.sample_count;
  const Eigen::Index length = is_by_column ? table.sample_count : column_count;
  Eigen::MatrixXd raw = Eigen::MatrixXd::Zero(size, size);
  Eigen::MatrixXd centred = raw;
  for (Eigen::Index begin = 0; begin < length; begin += kBlockSize) {
    const Eigen::Index width = std::min(kBlockSize, length - begin);
    Eigen::MatrixXd block(size, width);
    Eigen::MatrixXd mean(size, width);
    for (Eigen::Index i = 0; i < size; ++i) {
      for (Eigen::Index j = 0; j < width; ++j) {
        const auto sample = static_cast<size_t>(is_by_column ? begin + j : i);
        const auto column = static_cast<size_t>(is_by_column ? i : begin + j);
        block(i, j) = static_cast<double>(table.values[sample * table.dimension + column]);
        mean(i, j) = columns[column].mean;
      }
    }
    raw.selfadjointView<Eigen::Lower>().rankUpdate(block, 1.0 / table.sample_count);
    block -= mean;
    centred.selfadjointView<Eigen::Lower>().rankUpdate(block, 1.0 / table.sample_count);
  }
  return {largest_eigenvalues(entries_of(centred), count), largest_eigenvalues(entries_of(raw), count)};
}

Objection find_other_name(const std::string& file, const SampleTable& table, const std::string& other_file,
                          const SampleTable& other) {
  for (size_t i = 0; i < table.names.size() && !other.names.empty(); ++i) {
    if (table.names[i] != other.names[i]) {
      std::string words = other_file + ": column " + std::to_string(file_column(other, i) + 1) + " is ";
      words.append(shown(other.names[i])).append(", and in ").append(file).append(" it is ");
      return words.append(shown(table.names[i])).append("; bring the columns into one order");
    }
  }
  return {};
}

Objection read_shard_table(std::span<const uint8_t> bytes, SampleTable* table, std::string* format) {
  if (std::string fault = find_shard_fault(bytes); !fault.empty()) {
    return " " + fault;
  }
  *table = {};
  *format = std::string(bytes.begin(), bytes.begin() + 4);
  Shard byte_shard;
  FloatShard float_shard;
  const bool is_float = is_float_shard(bytes);
  if ((is_float ? parse_float_shard(bytes, &float_shard) : parse_shard(bytes, &byte_shard)) != Status::kOk) {
    return " is no shard; docs/data.md shows how one is written";
  }
  table->sample_count = is_float ? float_shard.count : byte_shard.count;
  table->dimension = is_float ? float_shard.dimension : byte_shard.dimension;
  table->has_label = *format == "GSD3";
  table->label_column = table->has_label ? table->dimension - 1 : 0;
  table->values.resize(size_t{table->sample_count} * table->dimension);
  for (uint32_t i = 0; i < table->sample_count; ++i) {
    float* const out = &table->values[size_t{i} * table->dimension];
    is_float ? read_float_shard(float_shard, i, out) : read_shard(byte_shard, i, out);
  }
  return {};
}

}  // namespace gradstream
