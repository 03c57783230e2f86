// Bytes that somebody else wrote: of a file, of stdin, of a member of an archive. Their number is known, so that
// nothing is believed that they say about it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace gradus::cli {

[[noreturn]] void refuse(const std::string& file, const std::string& why);  // Failure(kUsage)

class Input {
  public:
    explicit Input(const std::string& path);             // a regular file; Failure(kUsage) for anything else
    Input(std::string name, std::vector<char> content);  // what is in memory already

    const std::string& name() const { return name_; }
    int64_t size() const { return size_; }
    int64_t left() const { return left_; }
    void seek(int64_t to);
    // Failure(kUsage) with `what` if there are not so many bytes.
    void read(void* to, int64_t bytes, const char* what);

  private:
    std::string name_;
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
    std::vector<char> content_;
    int64_t size_, left_;
};

// All of stdin, for whoever asks first; Failure(kUsage) for the second.
std::vector<char> read_stdin();

}  // namespace gradus::cli
