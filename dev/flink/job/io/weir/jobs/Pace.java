package io.weir.jobs;

import java.io.Serializable;
import java.util.concurrent.locks.LockSupport;

/**
 * Lets a fixed number of records per second pass by sleeping, so that the capacity of an instance is known exactly and
 * costs no CPU. Oversleep is paid back, up to a credit of 50 ms.
 */
final class Pace implements Serializable {
    private static final double SHORTEST_SLEEP_NS = 8e6;
    private static final double LARGEST_CREDIT_NS = 50e6;

    private final double nanosPerRecord;
    private double owedNanos;

    /** A capacity of 0 means no limit. */
    Pace(double recordsPerSecond) {
        nanosPerRecord = recordsPerSecond <= 0 ? 0 : 1e9 / recordsPerSecond;
    }

    void spendOneRecord() {
        if (nanosPerRecord == 0) {
            return;
        }
        owedNanos += nanosPerRecord;
        if (owedNanos < SHORTEST_SLEEP_NS) {
            return;
        }
        long start = System.nanoTime();
        LockSupport.parkNanos((long) owedNanos);
        owedNanos = Math.max(owedNanos - (System.nanoTime() - start), -LARGEST_CREDIT_NS);
    }
}
