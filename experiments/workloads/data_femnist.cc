#include "experiments/workloads/data_femnist.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

namespace gradstream {
namespace {

using Json = nlohmann::json;

// Takes a file's tokens one by one. A token that ends the reading leaves fault_, or is_full_.
class FemnistFile : public nlohmann::json_sax<Json> {
 public:
  FemnistFile(uint32_t writer_count, std::vector<FemnistWriter>* writers)
      : writer_count_(writer_count), writers_(writers), first_(writers->size()) {}

  // After the last token.
  std::string check() const {
    if (!fault_.empty()) {
      return fault_;
    }
    const bool has_list = !users_.empty() && users_.size() == counts_.size();
    if (!is_full_ && (!has_list || users_.size() != writers_->size() - first_)) {
      return "users, num_samples and user_data are not of the same writers";
    }
    std::map<std::string, double> told;
    for (size_t i = 0; has_list && i < users_.size(); ++i) {
      told[users_[i]] = counts_[i];
    }
    for (size_t i = first_; has_list && i < writers_->size(); ++i) {
      const FemnistWriter& writer = (*writers_)[i];
      const auto found = told.find(writer.name);
      if (found == told.end() || found->second != static_cast<double>(writer.samples.rows())) {
        return "writer " + writer.name + " has not the number of samples that num_samples says";
      }
    }
    return "";
  }
  bool is_full() const { return is_full_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return take(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return take(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return take(value); }
  bool string(string_t& value) override {
    if (depth_ == 1 && section_ == "users") {
      users_.push_back(value);
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) {
      section_ = name;
    } else if (depth_ == 2 && section_ == "user_data") {
      if (writers_->size() == writer_count_) {
        is_full_ = true;
        return false;
      }
      name_ = name;
      pixels_.clear();
      labels_.clear();
      row_count_ = 0;
    } else if (depth_ == 3 && section_ == "user_data") {
      field_ = name;
    }
    return true;
  }
  bool end_object() override {
    --depth_;
    return depth_ != 2 || section_ != "user_data" || keep_writer();
  }
  bool start_array(std::size_t) override {
    ++array_depth_;
    return true;
  }
  bool end_array() override {
    if (is_in("x") && array_depth_ == 2 && pixels_.size() != ++row_count_ * kFemnistPixelCount) {
      return fail("an image of writer " + name_ + " has not 28 x 28 values");
    }
    --array_depth_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail("no JSON at byte " + std::to_string(position) + ", or the file is cut short");
  }

 private:
  bool fail(const std::string& fault) {
    fault_ = fault;
    return false;
  }
  bool is_in(const char* field) const { return depth_ == 3 && section_ == "user_data" && field_ == field; }

  bool take(double value) {
    if (depth_ == 1 && section_ == "num_samples") {
      counts_.push_back(value);
    } else if (is_in("x")) {
      if (!(value >= 0 && value <= 1) || array_depth_ != 2) {
        return fail("a pixel of writer " + name_ + " is not in [0, 1]");
      }
      pixels_.push_back(1 - value);
    } else if (is_in("y")) {
      if (!(value >= 0 && value < kFemnistClassCount) || value != static_cast<uint32_t>(value)) {
        return fail("a class of writer " + name_ + " is not one of 0 to 61");
      }
      labels_.push_back(value);
    }
    return true;
  }

  bool keep_writer() {
    if (labels_.empty() || labels_.size() != row_count_) {
      return fail("writer " + name_ + " has " + std::to_string(row_count_) + " images and " +
                  std::to_string(labels_.size()) + " classes");
    }
    const auto rows = static_cast<Eigen::Index>(row_count_);
    FemnistWriter& writer = writers_->emplace_back();
    writer.name = name_;
    writer.samples.resize(rows, kFemnistPixelCount + 1);
    writer.samples.leftCols(kFemnistPixelCount) = Eigen::Map<const Matrix>(pixels_.data(), rows, kFemnistPixelCount);
    writer.samples.col(kFemnistPixelCount) = Eigen::Map<const Eigen::VectorXd>(labels_.data(), rows);
    return true;
  }

  const uint32_t writer_count_;
  std::vector<FemnistWriter>* const writers_;
  const size_t first_;
  std::string fault_;
  bool is_full_ = false;
  int depth_ = 0;        // of objects
  int array_depth_ = 0;  // of arrays
  std::string section_;  // of the file
  std::vector<std::string> users_;
  std::vector<double> counts_;
  // The writer that is being read.
  std::string name_;
  std::string field_;
  std::vector<double> pixels_;
  std::vector<double> labels_;
  size_t row_count_ = 0;
};

}  // namespace

std::string read_femnist(const std::string& folder, uint32_t writer_count, std::vector<FemnistWriter>* writers) {
  writers->clear();
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") {
      paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    if (writers->size() == writer_count) {
      break;
    }
    std::ifstream file(path, std::ios::binary);
    FemnistFile reader(writer_count, writers);
    Json::sax_parse(file, &reader);
    if (const std::string fault = reader.check(); !fault.empty()) {
      return path.string() + ": " + fault + "; make it anew with LEAF's data/femnist/preprocess.sh";
    }
  }
  return "";
}

}  // namespace gradstream
