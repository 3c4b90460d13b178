// Symbols of the program's executable file: names of kernels, names and addresses of shared variables, and
// source lines.
//
// The static shared memory of a block consists of thread-local variables, so the symbol table gives the
// bounds of each variable. Source lines come from addr2line (binutils), which is called only for the report
// of a fault.
//
// Source: System V ABI, ELF-64.
#pragma once

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

struct Symbol {
  uint64_t begin = 0, bytes = 0;
  const char* mangled = nullptr;
};

inline std::string demangled(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? text.get() : mangled;
}

// The bytes of a file, mapped into memory; none if it cannot be read. Only the pages that are used are read:
// a program with all kernels has 70 MB, most of them debug information.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about {};
    if (file >= 0 && ::fstat(file, &about) == 0 && about.st_size > 0) {
      size_ = static_cast<size_t>(about.st_size);
      void* const begin = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (begin != MAP_FAILED) data_ = static_cast<const char*>(begin);
    }
    if (file >= 0) (void)::close(file);
  }
  ~MappedFile() {
    if (data_) (void)::munmap(const_cast<char*>(data_), size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const char* data() const { return data_; }
  size_t size() const { return data_ ? size_ : 0; }

 private:
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// The executable or shared object that contains an address.
class Module {
 public:
  uintptr_t base = 0;  // load address
  std::string path;
  const char* shared_begin = nullptr;  // static shared memory (thread-local storage) of the calling thread
  size_t shared_bytes = 0;
  std::vector<std::pair<const char*, const char*>> constants;  // read-only segments
  std::vector<Symbol> functions, variables;  // sorted by begin, which for variables counts from shared_begin

  // Returns true if the module is loaded at this address.
  bool contains(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return std::any_of(loaded_.begin(), loaded_.end(),
                       [&](const auto& part) { return at - part.first < part.second; });
  }
  explicit Module(const void* address) {
    address_ = reinterpret_cast<uintptr_t>(address);
    (void)dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* self) { return static_cast<Module*>(self)->visit(*info); },
        this);
    read_symbols();
  }
  // The symbol that contains `at`, or null.
  static const Symbol* find(const std::vector<Symbol>& symbols, uint64_t at) {
    auto after = std::upper_bound(symbols.begin(), symbols.end(), at,
                                  [](uint64_t a, const Symbol& s) { return a < s.begin; });
    return after == symbols.begin() || at >= (after - 1)->begin + (after - 1)->bytes ? nullptr
                                                                                     : &*(after - 1);
  }
  // The source line "softmax.cuh:41" and, if it was inlined, the lines of its callers.
  std::string lines_of(uint64_t offset) const {
    char place[32];
    (void)std::snprintf(place, sizeof place, "+0x%llx", static_cast<unsigned long long>(offset));
    std::string quoted = path;
    for (size_t i = 0; (i = quoted.find('\'', i)) != std::string::npos; i += 4) quoted.replace(i, 1, "'\\''");
    char number[32];  // an address in the call instruction, before the return address
    (void)std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(offset - 1));
    std::string text;
    FILE* const lines = popen(("addr2line -i -e '" + quoted + "' " + number + " 2>/dev/null").c_str(), "r");
    char line[1024];
    for (int i = 0; lines && std::fgets(line, sizeof line, lines) && i < 6; ++i) {
      std::string one = line;
      one = one.substr(0, one.find_first_of("\n "));
      if (one.find('?') == std::string::npos) text += (text.empty() ? "\n  at " : "\n  inlined at ") + one;
    }
    if (lines) (void)pclose(lines);
    return text.empty() ? "\n  at " + path + place : text;
  }

 private:
  int visit(const dl_phdr_info& info) {
    bool holds = false;
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const auto& part = info.dlpi_phdr[i];
      holds |= part.p_type == PT_LOAD && address_ - info.dlpi_addr - part.p_vaddr < part.p_memsz;
    }
    if (!holds) return 0;
    base = info.dlpi_addr;
    path = info.dlpi_name && *info.dlpi_name ? info.dlpi_name : "/proc/self/exe";
    if (char* const whole = realpath(path.c_str(), nullptr)) {
      path = whole;
      std::free(whole);
    }
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const auto& part = info.dlpi_phdr[i];
      const auto* const begin = reinterpret_cast<const char*>(base + part.p_vaddr);
      if (part.p_type == PT_LOAD) loaded_.emplace_back(base + part.p_vaddr, part.p_memsz);
      if (part.p_type == PT_TLS) {
        shared_begin = static_cast<const char*>(info.dlpi_tls_data);
        shared_bytes = shared_begin ? part.p_memsz : 0;
      } else if ((part.p_type == PT_LOAD && !(part.p_flags & PF_W)) || part.p_type == PT_GNU_RELRO) {
        constants.emplace_back(begin, begin + part.p_memsz);
      }
    }
    return 1;
  }
  template <class T>
  const T* part(uint64_t offset, uint64_t count = 1) const {
    return offset <= file_->size() && count <= (file_->size() - offset) / sizeof(T)
               ? reinterpret_cast<const T*>(file_->data() + offset)
               : nullptr;
  }
  // If the file has no symbols or another format, the lists stay empty, and reports have no names.
  void read_symbols() {
    file_ = std::make_unique<MappedFile>(path);
    const auto* const head = part<Elf64_Ehdr>(0);
    if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64)
      return;
    const auto* const sections = part<Elf64_Shdr>(head->e_shoff, head->e_shnum);
    for (unsigned i = 0; sections && i < head->e_shnum; ++i) {
      if (sections[i].sh_type != SHT_SYMTAB || sections[i].sh_link >= head->e_shnum) continue;
      const size_t count = sections[i].sh_size / sizeof(Elf64_Sym);
      const auto* const symbols = part<Elf64_Sym>(sections[i].sh_offset, count);
      const Elf64_Shdr& names = sections[sections[i].sh_link];
      for (size_t s = 0; symbols && s < count; ++s) {
        const auto type = ELF64_ST_TYPE(symbols[s].st_info);
        const char* const name = part<char>(names.sh_offset + symbols[s].st_name);
        if (!name || symbols[s].st_size == 0) continue;
        if (type == STT_FUNC) functions.push_back({symbols[s].st_value, symbols[s].st_size, name});
        if (type == STT_TLS) variables.push_back({symbols[s].st_value, symbols[s].st_size, name});
      }
    }
    const auto by_begin = [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; };
    std::sort(functions.begin(), functions.end(), by_begin);
    std::sort(variables.begin(), variables.end(), by_begin);
  }

  uintptr_t address_ = 0;
  std::vector<std::pair<uintptr_t, size_t>> loaded_;  // address and bytes of each part in memory
  std::unique_ptr<const MappedFile> file_;
};

// The module of a kernel, cached per thread.
inline const Module& module_of(const void* kernel) {
  thread_local std::vector<std::unique_ptr<Module>> modules;
  thread_local std::unordered_map<const void*, const Module*> known;
  const Module*& module = known[kernel];
  if (module) return *module;
  for (const auto& m : modules) {
    if (m->contains(kernel)) return *(module = m.get());
  }
  modules.push_back(std::make_unique<Module>(kernel));
  return *(module = modules.back().get());
}

// The mangled name of a kernel, or null.
inline const char* mangled_name(const void* kernel) {
  const Module& module = module_of(kernel);
  const Symbol* const symbol =
      Module::find(module.functions, reinterpret_cast<uintptr_t>(kernel) - module.base);
  return symbol ? symbol->mangled : nullptr;
}

// The name of a kernel without namespaces, result type and parameters: "softmax_rows<float, 4>".
inline const std::string& kernel_name(const void* kernel) {
  thread_local std::unordered_map<const void*, std::string> known;
  std::string& name = known[kernel];
  if (!name.empty()) return name;
  const char* const mangled = mangled_name(kernel);
  const std::string whole = mangled ? demangled(mangled) : "(no symbol)";
  int depth = 0;
  size_t begin = 0, i = 0;
  for (; i < whole.size(); ++i) {
    const bool anonymous = whole.compare(i, 21, "(anonymous namespace)") == 0;
    if (anonymous)
      i += 20;
    else if (whole[i] == '<')
      ++depth;
    else if (whole[i] == '>')
      --depth;
    else if (depth == 0 && whole[i] == '(')
      break;
    else if (depth == 0 && (whole[i] == ' ' || whole[i] == ':'))
      begin = i + 1;
  }
  name = whole.substr(begin, i - begin);
  return name;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim
