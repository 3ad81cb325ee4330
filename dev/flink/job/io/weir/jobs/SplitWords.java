package io.weir.jobs;

import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.util.Collector;

/** Turns a line into its words, at the pace of its capacity. */
final class SplitWords implements FlatMapFunction<String, String> {
    private final Words words;
    private final Pace pace;

    SplitWords(Words words, double linesPerSecond) {
        this.words = words;
        this.pace = new Pace(linesPerSecond);
    }

    @Override
    public void flatMap(String text, Collector<String> out) {
        pace.spendOneRecord();
        long line = Long.parseLong(text.substring(0, text.indexOf(' ')));
        for (int i = 0; i < words.perLine; i++) {
            out.collect(words.word(line, i));
        }
    }
}
