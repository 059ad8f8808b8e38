// An array on the device.
#pragma once
#include "check.h"
#include <cstddef>
#include <vector>

template <class T> class Array {
public:
    explicit Array(size_t size) : size_(size)
    {
        check(cudaMalloc((void **)&data_, size * sizeof(T)), "allocating an array");
    }
    explicit Array(const std::vector<T> &from) : Array(from.size()) { upload(from); }
    Array(const Array &) = delete;
    Array &operator=(const Array &) = delete;
    ~Array() { cudaFree(data_); }

    T *data() { return data_; }
    const T *data() const { return data_; }
    size_t size() const { return size_; }

    void clear() { check(cudaMemset(data_, 0, size_ * sizeof(T)), "clearing an array"); }
    void upload(const std::vector<T> &from)
    {
        check(cudaMemcpy(data_, from.data(), size_ * sizeof(T), cudaMemcpyHostToDevice), "uploading");
    }
    std::vector<T> download() const
    {
        std::vector<T> to(size_);
        check(cudaMemcpy(to.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "downloading");
        return to;
    }

private:
    T *data_ = nullptr;
    size_t size_;
};
