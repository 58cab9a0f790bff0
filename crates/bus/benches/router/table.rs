//! Tables of figures: each column as wide as it needs.

pub(crate) struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            title: title.into(),
            rows: vec![columns.iter().map(|&column| column.to_owned()).collect()],
        }
    }

    pub(crate) fn row(&mut self, row: Vec<String>) {
        assert_eq!(
            row.len(),
            self.rows[0].len(),
            "a row has a figure for each column"
        );
        self.rows.push(row);
    }

    pub(crate) fn print(&self) {
        println!("\n{}", self.title);
        let width = |column: usize| self.rows.iter().map(|row| row[column].len()).max();
        let widths: Vec<usize> = (0..self.rows[0].len())
            .map(|column| width(column).unwrap_or(0))
            .collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths);
            let line: Vec<String> = cells
                .map(|(cell, &width)| format!("{cell:>width$}"))
                .collect();
            println!("{}", line.join("  "));
        }
    }
}

/// A verdict to stand beside a figure.
pub(crate) fn verdict(is_met: bool) -> String {
    if is_met { "ok" } else { "MISSED" }.to_owned()
}
